/** A failure of ours, as `--json` prints it on stderr. */
import { z } from "zod";
import { ERROR_CODES } from "../base/errors.ts";
import { SCHEMA } from "./names.ts";

export const ErrorSchema = z.strictObject({
  schema: z.literal(SCHEMA.error),
  code: z.enum(ERROR_CODES),
  message: z.string(),
  hint: z.string().nullable().describe("What to type next"),
});

export type ErrorDocument = z.infer<typeof ErrorSchema>;
