/** Signals through pidfds, so that a reused pid is never hit; and the reaping of adopted orphans. */
import { closeFile } from "../../base/files.ts";
import { integers, type Libc } from "../../base/libc.ts";
import type { Orphans, ProcessControl } from "../process-control.ts";
import { ownChildren, type ProcessState, readProcess, readTree } from "../process-tree.ts";
import { type Sample, sampleProcesses } from "../sample.ts";

const SYS_PIDFD_SEND_SIGNAL = 424;
const SYS_PIDFD_OPEN = 434;
const WNOHANG = 1;
/** sizeof(struct rusage) */
const RUSAGE_BYTES = 144;

/** A descriptor of the process itself, readable when it ends; negative where the kernel has none (before 5.3). */
export function openPidfd(libc: Libc, pid: number): number {
  return libc.syscall(SYS_PIDFD_OPEN, pid, null, 0, 0);
}

export interface Reaped {
  status: number;
  userMs: number;
  systemMs: number;
  maxRssBytes: number;
}

/** Collects a child that has ended; null when it has not. Only ever a pid that we know: never any child. */
export function reap(libc: Libc, pid: number): Reaped | null {
  const status = integers(1);
  const usage = new BigInt64Array(new ArrayBuffer(RUSAGE_BYTES));
  if (libc.wait4(pid, status, WNOHANG, usage) !== pid) return null;
  const ms = (seconds: bigint, micro: bigint) => Number(seconds) * 1000 + Number(micro) / 1000;
  return {
    status: status[0]!,
    userMs: ms(usage[0]!, usage[1]!),
    systemMs: ms(usage[2]!, usage[3]!),
    // ru_maxrss is in KiB.
    maxRssBytes: Number(usage[4]!) * 1024,
  };
}

export class PosixProcessControl implements ProcessControl {
  readonly memorySource = "VmRSS";
  readonly peakSource = "VmHWM";
  private readonly libc: Libc;
  /** Children that we were born with (a shell's process substitution). */
  private readonly foreign = new Set(ownChildren());
  private child: ProcessState | null = null;

  constructor(libc: Libc) {
    this.libc = libc;
  }

  /** The run's own child: everything that belongs to the run has started after it. */
  follow(pid: number): void {
    this.child = readProcess(pid);
  }

  living(): ProcessState[] {
    return readTree((process) => this.isForeign(process)).filter(({ state }) => state !== "Z" && state !== "X");
  }

  signal(process: ProcessState, number: number): boolean {
    const pidfd = openPidfd(this.libc, process.pid);
    if (pidfd < 0) return this.isStill(process) && this.libc.kill(process.pid, number) === 0;
    // The pidfd is of whoever has the pid now: it is ours when it started when ours did.
    const sent = this.isStill(process) && this.libc.syscall(SYS_PIDFD_SEND_SIGNAL, pidfd, number as never, 0, 0) === 0;
    closeFile(pidfd);
    return sent;
  }

  sample(report: (sample: Sample) => void): void {
    const sample = sampleProcesses(this.living());
    if (sample !== null) report(sample);
  }

  reapOrphans(childPid: number): Orphans {
    const orphans: Orphans = { userMs: 0, systemMs: 0, living: 0 };
    for (const pid of ownChildren()) {
      const process = pid === childPid ? null : readProcess(pid);
      if (process === null || this.isForeign(process)) continue;
      const reaped = reap(this.libc, pid);
      if (reaped === null) orphans.living += 1;
      orphans.userMs += reaped?.userMs ?? 0;
      orphans.systemMs += reaped?.systemMs ?? 0;
    }
    return orphans;
  }

  /**
   * Neither sampled, signalled nor waited for: what we were born with, and the orphans of it that we adopted, which are
   * older than the run's child. Within one clock tick the pid decides.
   */
  private isForeign({ pid, startTicks }: ProcessState): boolean {
    if (this.foreign.has(pid)) return true;
    if (this.child === null || pid === this.child.pid) return false;
    return startTicks < this.child.startTicks || (startTicks === this.child.startTicks && pid < this.child.pid);
  }

  private isStill(process: ProcessState): boolean {
    return readProcess(process.pid)?.startTicks === process.startTicks;
  }
}
