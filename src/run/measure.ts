/** From the kernel's figures and our samples to values that say how far they can be trusted. Pure. */
import type { Cpu, Measure } from "../evidence/receipt.ts";

/**
 * Peak memory of the largest process. The kernel's ru_maxrss includes the size of the parent that the child was forked
 * from, so a value at or below our own peak at the start (`floorBytes`) only bounds the child's.
 */
export function processPeak(
  maxRssBytes: number | null,
  floorBytes: number | null,
  sampledPeakBytes: number | null,
  sampleSource: string,
): Measure {
  if (maxRssBytes !== null && floorBytes !== null && maxRssBytes > floorBytes) {
    return { value: maxRssBytes, quality: "exact", source: "ru_maxrss" };
  }
  if (sampledPeakBytes !== null) return { value: sampledPeakBytes, quality: "sampled", source: sampleSource };
  if (maxRssBytes !== null) return { value: maxRssBytes, quality: "upper_bound", source: "ru_maxrss" };
  return { value: null, quality: "unavailable", source: null };
}

export function cpuOf(userMs: number, systemMs: number, wallMs: number, partial: boolean): Cpu {
  const percent = wallMs > 0 ? Math.round(((userMs + systemMs) / wallMs) * 1000) / 10 : null;
  return { user_ms: userMs, system_ms: systemMs, percent, partial };
}
