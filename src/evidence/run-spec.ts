/** A run as data: what `ashctl run --spec FILE` reads. Unknown fields are refused. */
import { z } from "zod";
import { fromByteText } from "../base/bytes.ts";
import { SCHEMA } from "./names.ts";
import { ByteTextSchema } from "./receipt.ts";

/** `NAME` of a variable: not empty, no `=`, no NUL. */
export const VariableNameSchema = z.string().regex(/^[^=\0]+$/, "a variable's name has no '=' and is not empty");

const ArgumentSchema = ByteTextSchema.refine(
  (argument) => !fromByteText(argument).includes(0),
  "an argument cannot hold a NUL",
);

export const RunSpecSchema = z.strictObject({
  schema: z.literal(SCHEMA.runSpec).optional(),
  argv: z.array(ArgumentSchema).min(1).describe("The program and its arguments, one by one; no shell reads them"),
  cwd: z.string().min(1).optional(),
  env: z.record(VariableNameSchema, ArgumentSchema).optional().describe("Set, over the caller's environment"),
  unset_env: z.array(VariableNameSchema).optional(),
  stdin: z.enum(["auto", "inherit", "capture", "null"]).optional(),
  stdin_file: z.string().min(1).optional(),
  timeout_ms: z.int().min(0).optional().describe("0: none"),
  kill_after_ms: z.int().min(0).optional(),
  linger_ms: z.int().min(0).optional(),
  max_output_bytes: z.int().min(0).optional().describe("0: no budget"),
  max_stdin_bytes: z.int().min(0).optional().describe("0: no budget"),
  pty: z.boolean().optional(),
  tee: z.boolean().optional(),
  record_env: z.array(VariableNameSchema).optional(),
  track: z.array(z.string().min(1)).optional(),
  durable: z.boolean().optional(),
  require_evidence: z.boolean().optional(),
  labels: z.record(z.string().regex(/^[^=\0]+$/), z.string()).optional(),
  quickview: z.boolean().optional(),
  sample_ms: z.int().min(0).optional().describe("Fixed interval between samples; 0: the adaptive default"),
});

export type RunSpec = z.infer<typeof RunSpecSchema>;
