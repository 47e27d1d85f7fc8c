/** changes.json: how the files under the tracked paths differ between two looks at them. No proof of what the child did. */
import { z } from "zod";
import { SCHEMA } from "./names.ts";
import { ByteTextSchema, RunIdSchema, TimeSchema } from "./receipt.ts";

const CountSchema = z.int().min(0);
const ENTRY_TYPES = ["file", "symlink", "fifo", "socket", "device"] as const;

export const TrackedKindSchema = z
  .enum([...ENTRY_TYPES, "directory", "missing", "unknown"])
  .describe("What the path itself was; a symlink there is not followed");

export const FileStateSchema = z.strictObject({
  type: z.enum(ENTRY_TYPES),
  size: CountSchema,
  mtime: TimeSchema.nullable().describe("With nanoseconds; null outside the years 0000 to 9999"),
  mode: z
    .string()
    .regex(/^[0-7]{4}$/)
    .describe("Permission bits, octal"),
  sha256: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .nullable()
    .describe(
      "Of the content, or of a symlink's target; null when it was not read: over 16 MiB, no time, no permission",
    ),
});

const place = {
  root: CountSchema.describe("Index in paths"),
  path: ByteTextSchema.describe('Relative to the tracked path; "." is the tracked path itself'),
};

export const ChangeSchema = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("added"), ...place, before: z.null(), after: FileStateSchema }),
  z.strictObject({ kind: z.literal("removed"), ...place, before: FileStateSchema, after: z.null() }),
  z.strictObject({ kind: z.literal("modified"), ...place, before: FileStateSchema, after: FileStateSchema }),
]);

export const TreeObservationSchema = z.strictObject({
  at: TimeSchema.describe("When it began"),
  duration_ms: z.number().min(0),
  files: CountSchema.describe("Entries observed; directories do not count"),
  ignored: CountSchema.describe("Files and whole directories that a .gitignore kept the walk from"),
  complete: z.boolean(),
  bounds: z.array(z.enum(["files", "time"])).describe("The bounds that were reached"),
  problem_count: CountSchema,
  problems: z.array(z.strictObject({ ...place, reason: z.string() })).describe("The first 100"),
});

export const ChangesFileSchema = z.strictObject({
  schema: z.literal(SCHEMA.changes),
  run_id: RunIdSchema,
  paths: z.array(
    z.strictObject({
      path: ByteTextSchema.describe("Absolute"),
      before: TrackedKindSchema,
      after: TrackedKindSchema,
    }),
  ),
  limits: z.strictObject({ files: CountSchema, ms: CountSchema, hash_bytes: CountSchema }).describe("Per observation"),
  complete: z.boolean().describe("false: there may be more changes than these"),
  reason: z.string().nullable().describe("Why it is not complete"),
  before: TreeObservationSchema,
  after: TreeObservationSchema,
  counts: z.strictObject({ added: CountSchema, removed: CountSchema, modified: CountSchema }),
  items: z.array(ChangeSchema).describe("By tracked path, then by the bytes of the path"),
});

export type TrackedKind = z.infer<typeof TrackedKindSchema>;
export type FileState = z.infer<typeof FileStateSchema>;
export type Change = z.infer<typeof ChangeSchema>;
export type TreeObservation = z.infer<typeof TreeObservationSchema>;
export type ChangesFile = z.infer<typeof ChangesFileSchema>;
