/** The only reader of time. Durations come from the monotonic clock, provenance from the wall clock. */

/** Nanoseconds on this process's monotonic clock; comparable only within one process. */
export function monotonicNs(): number {
  return Bun.nanoseconds();
}

/** Wall clock in milliseconds since 1970, UTC. */
export function wallMs(): number {
  return Date.now();
}

/** Wall clock in whole microseconds since 1970, UTC. */
export function wallMicroseconds(): number {
  return Math.floor((performance.timeOrigin + performance.now()) * 1000);
}

/** RFC 3339 in UTC with milliseconds: `2026-08-28T14:03:12.417Z`. */
export function formatTime(ms: number): string {
  return new Date(ms).toISOString();
}
