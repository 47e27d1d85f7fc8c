/**
 * The one error class for what we expect to go wrong. A child's result is data and never an AshError; any other
 * exception is a bug and is reported as one.
 */
export const ERROR_CODES = [
  "usage",
  "bad_environment",
  "bad_spec",
  "unknown_schema",
  "run_not_found",
  "run_ambiguous",
  "run_not_final",
  "evidence_missing",
  "evidence_corrupt",
  "store_unavailable",
  "write_failed",
  "internal",
] as const;

export type ErrorCode = (typeof ERROR_CODES)[number];

export class AshError extends Error {
  readonly code: ErrorCode;
  /** What to type next; printed as part of the one error line. */
  readonly hint: string | null;

  constructor(code: ErrorCode, message: string, options: { hint?: string; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "AshError";
    this.code = code;
    this.hint = options.hint ?? null;
  }
}

/** Tells whether `error` is a system error, and when `code` is given, that one (`ENOENT`). */
export function isErrno(error: unknown, code?: string): error is NodeJS.ErrnoException & { code: string } {
  if (!(error instanceof Error)) return false;
  const own = (error as NodeJS.ErrnoException).code;
  return typeof own === "string" && own.startsWith("E") && (code === undefined || own === code);
}

/** Names an unknown error for a one-line message: the errno's own name, else the error's text. */
export function errorReason(error: unknown): string {
  if (isErrno(error)) return error.code;
  return error instanceof Error ? error.message : String(error);
}
