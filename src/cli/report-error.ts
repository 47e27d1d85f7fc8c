/** The only place that prints an error and picks the exit code. */
import { AshError, isErrno } from "../base/errors.ts";
import { EXIT_BROKER, EXIT_BY_ERROR } from "../base/exit-codes.ts";
import { makeVisible } from "../base/terminal-text.ts";
import type { ErrorDocument } from "../evidence/error.ts";
import { SCHEMA } from "../evidence/names.ts";
import { writeAll } from "./output.ts";

export interface ErrorReport {
  program: "ash" | "ashctl";
  json: boolean;
  /** `ash` and `ashctl run` answer every failure of ours with 125. */
  broker: boolean;
}

/** Prints one line (or one document) on stderr. Returns the exit code. A bug is reported with its stack. */
export function reportError(error: unknown, { program, json, broker }: ErrorReport): number {
  const known = error instanceof AshError ? error : null;
  const code = known?.code ?? "internal";
  const message = known?.message ?? `a fault in ${program}: ${error instanceof Error ? error.message : String(error)}`;
  if (json) {
    const document: ErrorDocument = { schema: SCHEMA.error, code, message, hint: known?.hint ?? null };
    writeAll(2, `${JSON.stringify(document)}\n`);
  } else {
    const hint = known?.hint == null ? "" : ` (${known.hint})`;
    writeAll(2, `${program}: ${makeVisible(`${message}${hint}`)}\n`);
    if (known === null && error instanceof Error && !isErrno(error)) writeAll(2, `${error.stack ?? ""}\n`);
  }
  return broker ? EXIT_BROKER : EXIT_BY_ERROR[code];
}
