/** The handle of a run that has just started. */
import { z } from "zod";
import { SCHEMA } from "./names.ts";
import { ByteTextSchema, RunIdSchema, SuffixSchema, TimeSchema } from "./receipt.ts";

export const AnnouncementSchema = z.strictObject({
  schema: z.literal(SCHEMA.announcement),
  run_id: RunIdSchema,
  suffix: SuffixSchema,
  pid: z.int().min(1).describe("Of the child"),
  run_dir: ByteTextSchema.describe("Absolute; stdout.bin and stderr.bin exist already"),
  started_at: TimeSchema,
});

export type Announcement = z.infer<typeof AnnouncementSchema>;
