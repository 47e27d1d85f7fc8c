/** What happened, written once. Field names are promises; fields may be added. */
import { z } from "zod";
import { DEDUP, EXIT_KINDS, QUALITIES, SCHEMA, STATES, STDIN_KINDS, STREAM_ENDS } from "./names.ts";

export const ByteTextSchema = z
  .union([z.string(), z.strictObject({ base64: z.base64() })])
  .describe("Plain text where the bytes are UTF-8, else base64");
export const RunIdSchema = z.string().regex(/^run_\d{8}T\d{6}\.\d{6}Z-[0-9a-f]{8}$/);
export const SuffixSchema = z
  .string()
  .regex(/^[0-9a-f]{8}$/)
  .describe("Last 8 hex digits of the run id");
export const TimeSchema = z.iso.datetime().describe("Wall clock, RFC 3339, UTC");
const Sha256Schema = z.string().regex(/^[0-9a-f]{64}$/);
const CountSchema = z.int().min(0);

export const ExitSchema = z.strictObject({
  kind: z.enum(EXIT_KINDS).describe("How the child ended; none: there was no child, or its end is unknown"),
  code: z.int().min(0).max(255).nullable(),
  signal: z.string().nullable().describe("SIGKILL; real-time and unnamed signals keep their number: SIG34"),
});

export const MeasureSchema = z.strictObject({
  value: CountSchema.nullable().describe("Bytes; null when unavailable"),
  quality: z.enum(QUALITIES),
  source: z.string().nullable().describe("ru_maxrss, VmHWM or VmRSS; null when unavailable"),
});

export const CpuSchema = z.strictObject({
  user_ms: z.number().min(0).nullable(),
  system_ms: z.number().min(0).nullable(),
  percent: z.number().min(0).nullable().describe("user and system time over wall_ms"),
  partial: z.boolean().describe("Descendants that the child did not wait for were seen: their time is missing"),
});

export const RssSchema = z.strictObject({
  process_bytes: MeasureSchema.describe("Peak of the largest process"),
  tree_bytes: MeasureSchema.describe("Peak sum over the process tree"),
});

export const HostStateSchema = z.strictObject({
  load: z.tuple([z.number(), z.number(), z.number()]).nullable().describe("Load average over 1, 5 and 15 minutes"),
  memory_total_bytes: CountSchema.nullable(),
  memory_available_bytes: CountSchema.nullable(),
  memory_used_percent: z.number().nullable(),
  processes: CountSchema.nullable(),
});

export const HostSchema = z
  .strictObject({ before: HostStateSchema.nullable(), after: HostStateSchema.nullable() })
  .describe("Observations of the machine; no claim that the child caused the difference");

export const StreamSchema = z.strictObject({
  bytes: CountSchema.describe("Bytes stored"),
  sha256: Sha256Schema.describe("Of the stored bytes"),
  complete: z.boolean().describe("Nothing that was written until finalization is missing"),
  ended: z.enum(STREAM_ENDS),
  lines: CountSchema.describe("Logical lines; a last fragment without a line ending counts"),
  terminal: z
    .boolean()
    .describe("It was a pseudo-terminal: stdout and stderr in one, line endings as the terminal made them"),
  held_by: z.array(CountSchema).nullable().describe("held_open: the processes that still had it; may be incomplete"),
});

export const StreamsSchema = z.strictObject({
  stdin: StreamSchema.nullable(),
  stdout: StreamSchema.nullable(),
  stderr: StreamSchema.nullable(),
});

export const StorageSchema = z.strictObject({
  logical_bytes: CountSchema.describe("Stream bytes of this run"),
  new_bytes: CountSchema,
  reused_bytes: CountSchema.describe("Stream bytes shared with an earlier run"),
  complete: z.boolean(),
  reason: z.string().nullable().describe("Why it is not complete"),
  lost_bytes: CountSchema.describe("Bytes the child wrote that were not stored"),
  stored: z.boolean().describe("false: no place could take the run"),
  dedup: z.enum(DEDUP),
  dedup_reason: z.string().nullable(),
});

export const ChangesSchema = z
  .discriminatedUnion("observed", [
    z.strictObject({ observed: z.literal(false) }),
    z.strictObject({
      observed: z.literal(true),
      paths: z.array(ByteTextSchema).describe("Tracked paths, absolute"),
      complete: z.boolean(),
      reason: z.string().nullable().describe("Why it is not complete"),
      added: CountSchema,
      removed: CountSchema,
      modified: CountSchema,
    }),
  ])
  .describe("Files under the tracked paths before and after the run; no proof of what the child did");

export const PreviousSchema = z
  .strictObject({
    run_id: RunIdSchema,
    age_ms: CountSchema.describe("From the end of that run to the start of this one"),
    exit: ExitSchema,
    streams: z.strictObject({
      stdout: z.strictObject({ same: z.boolean() }),
      stderr: z.strictObject({ same: z.boolean() }),
    }),
  })
  .describe("The last finalized run of the same group in this root");

export const ReceiptSchema = z.strictObject({
  schema: z.literal(SCHEMA.receipt),
  run_id: RunIdSchema,
  state: z.enum(STATES).describe("Why the run ended"),
  exit: ExitSchema,
  wall_ms: z.number().min(0).describe("Monotonic, from the child's start to its exit"),
  started_at: TimeSchema,
  ended_at: TimeSchema,
  argv: z.array(ByteTextSchema),
  cwd: ByteTextSchema.nullable().describe("Working directory of the child"),
  root: ByteTextSchema.nullable().describe("The store this run was recorded in; null: in none"),
  group: z.string().describe("EXECUTABLE/INVOCATION under artifacts/"),
  pid: CountSchema.nullable(),
  failure: z
    .strictObject({
      errno: z.string(),
      message: z.string(),
      exit_code: z.int().describe("Of the broker: 125, 126 or 127"),
    })
    .nullable()
    .describe("Why the child could not start"),
  cpu: CpuSchema.nullable(),
  rss: RssSchema.nullable(),
  host: HostSchema,
  streams: StreamsSchema,
  stdin: z.strictObject({
    kind: z.enum(STDIN_KINDS),
    path: ByteTextSchema.nullable().describe("For a file: its path, as the system names it"),
    offset: CountSchema.nullable().describe("For a file: where the child began to read"),
  }),
  limits: z.strictObject({
    timeout_ms: CountSchema.nullable(),
    kill_after_ms: CountSchema.describe("From asking a tree to stop to killing it"),
    linger_ms: CountSchema.describe("How long streams may stay open after the child's exit"),
    max_output_bytes: CountSchema.nullable().describe("stdout and stderr together"),
    max_stdin_bytes: CountSchema.nullable(),
    sample_ms: CountSchema.nullable().describe("Fixed sample interval; null: adaptive"),
  }),
  storage: StorageSchema,
  changes: ChangesSchema,
  environment: z.record(z.string(), ByteTextSchema.nullable()).nullable().describe("Only names asked for"),
  labels: z.record(z.string(), z.string()),
  terminated: z
    .strictObject({
      signalled: CountSchema.describe("Processes that were sent a signal, the killed ones included"),
      killed: CountSchema.describe("Processes that needed SIGKILL"),
      survivors: z.array(z.strictObject({ pid: CountSchema, argv0: z.string() })),
    })
    .nullable()
    .describe("What stopping the tree took; null when it was not stopped"),
  previous: PreviousSchema.nullable(),
  batch: z.null(),
  broker: z.strictObject({
    version: z.string(),
    platform: z.string(),
    bun_version: z.string(),
    launcher: z.enum(["posix", "portable"]),
  }),
  warnings: z.array(z.string()),
});

export type Exit = z.infer<typeof ExitSchema>;
export type Measure = z.infer<typeof MeasureSchema>;
export type Cpu = z.infer<typeof CpuSchema>;
export type Rss = z.infer<typeof RssSchema>;
export type HostState = z.infer<typeof HostStateSchema>;
export type StreamRecord = z.infer<typeof StreamSchema>;
export type Storage = z.infer<typeof StorageSchema>;
export type Previous = z.infer<typeof PreviousSchema>;
export type Receipt = z.infer<typeof ReceiptSchema>;
export type State = Receipt["state"];
