/** What the caller is answered: one value, rendered as text, brief text or this document. */
import { z } from "zod";
import { SCHEMA } from "./names.ts";
import {
  ByteTextSchema,
  ChangesSchema,
  PreviousSchema,
  ReceiptSchema,
  StorageSchema,
  StreamsSchema,
  SuffixSchema,
} from "./receipt.ts";

export const LineItemSchema = z.strictObject({
  line: z.int().min(1).describe("Line in its own stream"),
  stream: z.enum(["stdout", "stderr"]),
  elapsed_ns: z.int().min(0).describe("When its first byte was observed, from the child's start"),
  offset: z.int().min(0),
  bytes: z.int().min(0).describe("Raw length without the line ending"),
  text: z.string().describe("Safe to show: sequences removed, control characters escaped"),
  unterminated: z.boolean().describe("The stream ended before a line ending"),
});

export const CompletionSchema = z.strictObject({
  schema: z.literal(SCHEMA.completion),
  run_id: ReceiptSchema.shape.run_id,
  suffix: SuffixSchema,
  state: ReceiptSchema.shape.state,
  exit: ReceiptSchema.shape.exit,
  failure: ReceiptSchema.shape.failure,
  wall_ms: ReceiptSchema.shape.wall_ms,
  started_at: ReceiptSchema.shape.started_at,
  ended_at: ReceiptSchema.shape.ended_at,
  cpu: ReceiptSchema.shape.cpu,
  rss: ReceiptSchema.shape.rss,
  host: ReceiptSchema.shape.host,
  streams: StreamsSchema,
  storage: StorageSchema,
  changes: ChangesSchema,
  terminated: ReceiptSchema.shape.terminated,
  artifacts: ByteTextSchema.nullable().describe("Absolute run directory; null when nothing could be stored"),
  quickview: z.strictObject({ items: z.array(LineItemSchema) }).nullable(),
  inline: z
    .strictObject({
      items: z.array(
        z.strictObject({
          stream: z.enum(["stdout", "stderr"]),
          part: z.enum(["whole", "head", "tail"]),
          lines: z.array(z.string()),
          omitted_bytes: z.int().min(0).describe("Between head and tail"),
        }),
      ),
    })
    .nullable()
    .describe("Output of a run that no store could take, at most 16 KiB of it"),
  diagnostics: z.null(),
  previous: PreviousSchema.nullable(),
  next: z.array(z.string()).nullable().describe("A command line to go on with, as separate arguments"),
  warnings: z.array(z.string()),
});

export type LineItem = z.infer<typeof LineItemSchema>;
export type Completion = z.infer<typeof CompletionSchema>;
