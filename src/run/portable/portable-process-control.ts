/**
 * Signals and samples without a subreaper: a process that has left the tree is not found. Where there is no /proc,
 * `ps` tells the tree and `pidusage` its resources.
 */
import { pathExists } from "../../base/files.ts";
import type { Orphans, ProcessControl } from "../process-control.ts";
import { ownChildren, type ProcessState, readTree } from "../process-tree.ts";
import { type Sample, sampleProcesses } from "../sample.ts";

export class PortableProcessControl implements ProcessControl {
  readonly memorySource: string;
  readonly peakSource: string;
  private readonly foreign = new Set(ownChildren());
  private readonly hasProc: boolean;

  /** `hasProc` is a parameter for tests. */
  constructor(hasProc = pathExists("/proc/self/stat")) {
    this.hasProc = hasProc;
    this.memorySource = hasProc ? "VmRSS" : "pidusage";
    this.peakSource = hasProc ? "VmHWM" : "pidusage";
  }

  living(): ProcessState[] {
    const tree = this.hasProc ? readTree(({ pid }) => this.foreign.has(pid)) : readTreeByPs();
    return tree.filter(({ state }) => !state.startsWith("Z"));
  }

  signal({ pid }: ProcessState, number: number): boolean {
    try {
      return process.kill(pid, number);
    } catch {
      return false;
    }
  }

  sample(report: (sample: Sample) => void): void {
    if (!this.hasProc) {
      void sampleByPidusage(this.living()).then((sample) => {
        if (sample !== null) report(sample);
      });
      return;
    }
    const sample = sampleProcesses(this.living());
    if (sample !== null) report(sample);
  }

  reapOrphans(): Orphans {
    return { userMs: 0, systemMs: 0, living: 0 };
  }
}

/** Descendants of ours as `ps` lists them, without `ps` itself. Empty where there is no `ps`. */
function readTreeByPs(): ProcessState[] {
  let text: string;
  let ps: number;
  try {
    const result = Bun.spawnSync(["ps", "-A", "-o", "pid=,ppid=,stat="], { stdin: "ignore", stderr: "ignore" });
    text = result.stdout.toString();
    ps = result.pid;
  } catch {
    return [];
  }
  const byParent = new Map<number, ProcessState[]>();
  for (const line of text.split("\n")) {
    const [pid, ppid, state] = line.trim().split(/\s+/);
    if (state === undefined || Number(pid) === ps) continue;
    const one: ProcessState = { pid: Number(pid), ppid: Number(ppid), state, threads: 1, cpuTicks: 0, startTicks: 0 };
    byParent.set(one.ppid, [...(byParent.get(one.ppid) ?? []), one]);
  }
  const tree = [...(byParent.get(process.pid) ?? [])];
  for (let i = 0; i < tree.length; i += 1) tree.push(...(byParent.get(tree[i]!.pid) ?? []));
  return tree;
}

async function sampleByPidusage(tree: readonly ProcessState[]): Promise<Sample | null> {
  if (tree.length === 0) return null;
  const { default: pidusage } = await import("pidusage");
  try {
    const usages = Object.values(await pidusage(tree.map(({ pid }) => pid)));
    const memory = usages.map((usage) => usage.memory);
    return {
      processes: usages.length,
      threads: usages.length,
      rss_bytes: memory.reduce((sum, bytes) => sum + bytes, 0),
      peak_bytes: memory.length === 0 ? null : Math.max(...memory),
      cpu_ms: usages.reduce((sum, usage) => sum + usage.ctime, 0),
    };
  } catch {
    // They ended meanwhile.
    return null;
  }
}
