/** Sending signals to processes of the run, and only to them. */
import type { ProcessState } from "./process-tree.ts";
import type { Sample } from "./sample.ts";

export interface Orphans {
  userMs: number;
  systemMs: number;
  living: number;
}

export interface ProcessControl {
  /** All living processes of the run, parents before children. */
  living(): ProcessState[];
  /** Sends a signal to exactly this process: never to another one that has got its pid since. False when it is gone. */
  signal(process: ProcessState, number: number): boolean;
  /** Where a sample's resident size and its peak come from. */
  readonly memorySource: string;
  readonly peakSource: string;
  /** Looks at the resources of the tree: at once where /proc tells them, else later. Nothing when the tree is gone. */
  sample(report: (sample: Sample) => void): void;
  /** Collects adopted orphans that have ended: their CPU time in milliseconds, and how many others live on. */
  reapOrphans(childPid: number): Orphans;
}
