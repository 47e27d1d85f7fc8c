/** One look at the resources of a process tree. */
import { MS_PER_TICK, type ProcessState, readMemory } from "./process-tree.ts";

export interface Sample {
  processes: number;
  threads: number;
  /** Sum over the tree. */
  rss_bytes: number;
  /** Highest high-water mark of one process; null where none could be read. */
  peak_bytes: number | null;
  cpu_ms: number;
}

/** Reads /proc of every process; null when all of them are gone. */
export function sampleProcesses(tree: readonly ProcessState[]): Sample | null {
  if (tree.length === 0) return null;
  const sample: Sample = { processes: tree.length, threads: 0, rss_bytes: 0, peak_bytes: null, cpu_ms: 0 };
  for (const process of tree) {
    sample.threads += process.threads;
    sample.cpu_ms += process.cpuTicks * MS_PER_TICK;
    const memory = readMemory(process.pid);
    if (memory === null) continue;
    sample.rss_bytes += memory.rssBytes;
    sample.peak_bytes = Math.max(sample.peak_bytes ?? 0, memory.peakBytes);
  }
  return sample;
}
