/** Reads the file behind `ashctl run --spec`. */
import { readFileSync } from "node:fs";
import { encodeEscaped } from "../base/bytes.ts";
import { AshError, errorReason } from "../base/errors.ts";
import { type RunSpec, RunSpecSchema } from "../evidence/run-spec.ts";

/** Throws AshError `bad_spec` with the path of the field that is wrong. `-` reads stdin. */
export function readRunSpec(path: string): RunSpec {
  let text: string;
  try {
    text = readFileSync(path === "-" ? 0 : encodeEscaped(path), "utf8");
  } catch (error) {
    throw new AshError("bad_spec", `the spec '${path}' cannot be read: ${errorReason(error)}`);
  }
  let value: unknown;
  try {
    value = JSON.parse(text, (key, each: unknown) => {
      // As a name it would vanish instead of being set.
      if (key === "__proto__") throw new Error("the name __proto__ is not allowed");
      return each;
    });
  } catch (error) {
    throw new AshError("bad_spec", `the spec '${path}' is not JSON: ${error instanceof Error ? error.message : error}`);
  }
  const result = RunSpecSchema.safeParse(value);
  if (result.success) return result.data;
  const issue = result.error.issues[0]!;
  const unknown = issue.code === "unrecognized_keys" ? issue.keys[0] : undefined;
  const where = fieldPath(unknown === undefined ? issue.path : [...issue.path, unknown]);
  throw new AshError(
    "bad_spec",
    unknown === undefined
      ? `the spec '${path}': ${where}: ${issue.message}`
      : `the spec '${path}' has an unknown field: ${where}`,
    { hint: "see: ashctl schema run-spec" },
  );
}

/** `argv[2].base64` */
function fieldPath(path: readonly PropertyKey[]): string {
  const text = path.map((part) => (typeof part === "number" ? `[${part}]` : `.${String(part)}`)).join("");
  return text.replace(/^\./, "") || "the document";
}
