import type { ErrorCode } from "./errors.ts";

/** Exit of `ash` and `ashctl run` for a broker error before the child's start (as env, timeout and nohup use it). */
export const EXIT_BROKER = 125;
/** Found but not executable. */
export const EXIT_CANNOT_EXECUTE = 126;
/** Not found. */
export const EXIT_NOT_FOUND = 127;
/** The run's own time-out passed (as GNU timeout). */
export const EXIT_TIMED_OUT = 124;

/** Exit code of every `ashctl` verb but `run`, by error code. Printed by help and docs from here. */
export const EXIT_BY_ERROR = {
  usage: 2,
  bad_environment: 2,
  bad_spec: 2,
  unknown_schema: 2,
  run_not_found: 3,
  run_ambiguous: 2,
  run_not_final: 3,
  evidence_missing: 3,
  evidence_corrupt: 3,
  store_unavailable: 3,
  write_failed: 1,
  internal: 70,
} as const satisfies Record<ErrorCode, number>;
