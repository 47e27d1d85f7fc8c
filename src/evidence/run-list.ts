/** What `ashctl list` answers. */
import { z } from "zod";
import { SCHEMA, STATES } from "./names.ts";
import { ByteTextSchema, ExitSchema, RunIdSchema, SuffixSchema, TimeSchema } from "./receipt.ts";

export const RunListSchema = z.strictObject({
  schema: z.literal(SCHEMA.runList),
  items: z.array(
    z.strictObject({
      run_id: RunIdSchema,
      suffix: SuffixSchema,
      state: z.enum([...STATES, "unfinished"]).describe("unfinished: no receipt (running, or its broker has died)"),
      exit: ExitSchema.nullable(),
      argv: z.array(ByteTextSchema).nullable(),
      started_at: TimeSchema,
      wall_ms: z.number().nullable(),
      bytes: z.int().min(0).describe("Stream bytes stored"),
      pinned: z.boolean(),
      closed: z.boolean(),
      labels: z.record(z.string(), z.string()),
    }),
  ),
  cursor: z.string().nullable(),
});

export type RunList = z.infer<typeof RunListSchema>;
