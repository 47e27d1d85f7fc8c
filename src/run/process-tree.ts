/** The process tree below us, read from /proc. Everything is a snapshot: processes come and go while it is taken. */
import { listDirectory, readProcText } from "../base/files.ts";

export interface ProcessState {
  pid: number;
  state: string;
  ppid: number;
  threads: number;
  /** Clock ticks of user and system time, without waited-for children. */
  cpuTicks: number;
  /** Since boot, in clock ticks: with the pid it names a process for good. */
  startTicks: number;
}

/** Clock ticks of /proc are 1/100 s on every Linux that Bun runs on. */
export const MS_PER_TICK = 10;

/** Our own direct children. The main thread is the only one that starts any, and the one that adopts orphans. */
export function ownChildren(): number[] {
  const text = readProcText(`/proc/self/task/${process.pid}/children`);
  return text === null ? [] : parsePids(text);
}

function parsePids(text: string): number[] {
  const pids: number[] = [];
  for (const word of text.split(" ")) if (word !== "") pids.push(Number(word));
  return pids;
}

/** Direct children of a process, those of all its threads. */
function childrenOf(pid: number): number[] {
  const pids: number[] = [];
  for (const thread of listDirectory(`/proc/${pid}/task`) ?? []) {
    const text = readProcText(`/proc/${pid}/task/${thread}/children`);
    if (text !== null) pids.push(...parsePids(text));
  }
  return pids;
}

export function readProcess(pid: number): ProcessState | null {
  const text = readProcText(`/proc/${pid}/stat`);
  if (text === null) return null;
  // The name in parentheses may hold spaces and parentheses: fields are counted behind the last one.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return {
    pid,
    state: fields[0]!,
    ppid: Number(fields[1]),
    threads: Number(fields[17]),
    cpuTicks: Number(fields[11]) + Number(fields[12]),
    startTicks: Number(fields[19]),
  };
}

/**
 * All descendants of ours with their states, parents before children, zombies included. Left out, with what is below
 * them, are direct children that `isForeign` tells are no part of the run.
 */
export function readTree(isForeign: (child: ProcessState) => boolean): ProcessState[] {
  const tree: ProcessState[] = [];
  const queue = ownChildren();
  const direct = queue.length;
  for (let i = 0; i < queue.length; i += 1) {
    const process = readProcess(queue[i]!);
    if (process === null || (i < direct && isForeign(process))) continue;
    tree.push(process);
    queue.push(...childrenOf(process.pid));
  }
  return tree;
}

/** Resident memory of a process and its high-water mark in bytes; null for a zombie or one that is gone. */
export function readMemory(pid: number | "self"): { rssBytes: number; peakBytes: number } | null {
  const text = readProcText(`/proc/${pid}/status`);
  if (text === null) return null;
  const field = (name: string) => {
    const at = text.indexOf(name);
    return at < 0 ? null : Number.parseInt(text.slice(at + name.length), 10) * 1024;
  };
  const rssBytes = field("\nVmRSS:");
  const peakBytes = field("\nVmHWM:");
  return rssBytes === null || peakBytes === null ? null : { rssBytes, peakBytes };
}
