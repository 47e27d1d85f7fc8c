/** A bounded answer over one source of a run. */
import { z } from "zod";
import { SCHEMA } from "./names.ts";
import { RunIdSchema } from "./receipt.ts";

export const QueryItemSchema = z.strictObject({
  line: z.int().min(1).describe("1-based; in merged, the position in merged order"),
  stream: z.enum(["stdout", "stderr"]).optional().describe("In merged"),
  stream_line: z.int().min(1).optional().describe("In merged: the line in its own stream"),
  elapsed_ns: z
    .int()
    .min(0)
    .optional()
    .describe("In merged: when its first byte was observed; left out where no event tells"),
  offset: z.int().min(0).describe("Of its first byte in its stream"),
  bytes: z.int().min(0).describe("Raw length without the line ending"),
  text: z.string(),
  truncated: z.boolean().describe("The text is cut; bytes says the whole length"),
  unterminated: z.boolean().optional(),
  captures: z.record(z.string(), z.string().nullable()),
});

export const QueryResultSchema = z.strictObject({
  schema: z.literal(SCHEMA.queryResult),
  run_id: RunIdSchema.nullable(),
  source: z.string(),
  items: z.array(QueryItemSchema),
  totals: z.strictObject({ items: z.int().min(0), bytes: z.int().min(0) }),
  bound: z.enum(["items", "bytes", "time"]).nullable().describe("Which bound cut the answer"),
  cursor: z.string().nullable(),
  next: z.array(z.string()).nullable(),
  identity: z.strictObject({
    sha256: z.string().nullable(),
    bytes: z.int().min(0),
    provisional: z.boolean().describe("The run is not finalized"),
  }),
  query_ms: z.number().min(0),
});

export type QueryItem = z.infer<typeof QueryItemSchema>;
export type QueryResult = z.infer<typeof QueryResultSchema>;
