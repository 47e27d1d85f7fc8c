/** What `ashctl root` answers. */
import { z } from "zod";
import { SCHEMA } from "./names.ts";
import { ByteTextSchema } from "./receipt.ts";

export const RootSchema = z.strictObject({
  schema: z.literal(SCHEMA.root),
  root: ByteTextSchema.describe("Absolute path of the store"),
  place: ByteTextSchema.describe("The directory the store belongs to"),
  reason: z.string(),
  marker: z.string().nullable().describe("The entry that decided"),
});

export type RootDocument = z.infer<typeof RootSchema>;
