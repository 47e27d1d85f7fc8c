/** What a drainer is told: where late output goes, how much of it, and when the run's clock began. */

/** The name the drainer runs under: our image looks at the name it is called by. */
export const DRAINER_NAME = "ash-drain";

/** Where the drainer finds the first of its streams. */
export const DRAINER_FIRST_FD = 3;

export interface LateCapture {
  /** The run's directory; empty: nothing is stored. */
  directory: Uint8Array;
  /** What is left of the run's output budget; null without one. */
  budgetBytes: number | null;
  /** CLOCK_MONOTONIC at the child's start, in nanoseconds. */
  startNs: number;
}
