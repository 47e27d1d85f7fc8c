/** One line of the journal. Every event has `type` and `elapsed_ns`, nanoseconds from the child's start. */
import { z } from "zod";
import { STREAM_ENDS } from "./names.ts";
import { TimeSchema } from "./receipt.ts";

const elapsed_ns = z.int().min(0).describe("Monotonic nanoseconds from the child's start");
const stream = z.enum(["stdin", "stdout", "stderr"]);
const count = z.int().min(0);

export const EventSchema = z.discriminatedUnion("type", [
  z.strictObject({
    type: z.literal("run_started"),
    elapsed_ns,
    pid: count.nullable().describe("null: the child could not start"),
    argv_sha256: z.string().regex(/^[0-9a-f]{64}$/),
    at: TimeSchema,
  }),
  z.strictObject({
    type: z.literal("chunk"),
    elapsed_ns: elapsed_ns.describe("When the first of its bytes was observed"),
    stream,
    offset: count,
    bytes: count,
    chunks: count.optional().describe("Reads merged into this event across turns, near the journal's bound"),
    elapsed_last_ns: count.optional().describe("When the last of the merged reads was observed"),
  }),
  z.strictObject({ type: z.literal("stream_end"), elapsed_ns, stream, reason: z.enum(STREAM_ENDS), bytes: count }),
  z.strictObject({
    type: z.literal("sample"),
    elapsed_ns,
    processes: count,
    threads: count,
    rss_bytes: count.describe("Sum over the tree"),
    peak_bytes: count.nullable().describe("Largest VmHWM of one process"),
    cpu_ms: z.number().min(0),
    stdout_bytes: count,
    stderr_bytes: count,
  }),
  z.strictObject({
    type: z.literal("signal"),
    elapsed_ns,
    direction: z.enum(["sent", "received"]),
    signal: z.string(),
    pid: count.optional(),
  }),
  z.strictObject({ type: z.literal("stdin_end"), elapsed_ns, bytes: count, reason: z.string() }),
  z.strictObject({
    type: z.literal("child_exited"),
    elapsed_ns,
    kind: z.enum(["code", "signal"]),
    code: count.nullable(),
    signal: z.string().nullable(),
  }),
  z.strictObject({ type: z.literal("limit"), elapsed_ns, limit: z.string(), value: count }),
  z.strictObject({ type: z.literal("storage_error"), elapsed_ns, stream, reason: z.string() }),
  z.strictObject({ type: z.literal("run_finalized"), elapsed_ns, state: z.string() }),
]);

export type Event = z.infer<typeof EventSchema>;
export type ChunkEvent = Extract<Event, { type: "chunk" }>;
