/**
 * Stops every process of the run: SIGTERM and SIGCONT (a stopped process acts too), after the grace time SIGKILL to
 * what is left, again and again until nothing is. What survives that is named, not denied.
 */
import { displayBytes } from "../base/bytes.ts";
import { readWhole } from "../base/files.ts";
import { makeVisible } from "../base/terminal-text.ts";
import type { Receipt } from "../evidence/receipt.ts";
import type { Loop, Timer } from "./launcher.ts";
import type { ProcessControl } from "./process-control.ts";
import type { ProcessState } from "./process-tree.ts";

const SIGKILL = 9;
const SIGTERM = 15;
const SIGCONT = 18;
/** How often the tree is looked at while it is being stopped. */
const LOOK_MS = 10;
/** A process that SIGKILL has not ended by then hangs in the kernel. */
const GIVE_UP_MS = 2000;

export class TreeStopper {
  private readonly loop: Loop;
  private readonly control: ProcessControl;
  private readonly graceMs: number;
  private readonly onSignal: (signal: "SIGTERM" | "SIGKILL", pid: number) => void;
  private readonly signalled = new Set<string>();
  private readonly killed = new Set<string>();
  private phase: "idle" | "asking" | "killing" | "finished" = "idle";
  private timers: Timer[] = [];
  private survivors: { pid: number; argv0: string }[] = [];

  constructor(
    loop: Loop,
    control: ProcessControl,
    graceMs: number,
    onSignal: (signal: "SIGTERM" | "SIGKILL", pid: number) => void,
  ) {
    this.loop = loop;
    this.control = control;
    this.graceMs = graceMs;
    this.onSignal = onSignal;
  }

  /** Nothing is being stopped, or nothing is left to stop. */
  get isSettled(): boolean {
    return this.phase === "idle" || this.phase === "finished";
  }

  /** Asks first, kills after the grace time; at once when that is 0. Later calls change nothing. */
  stop(): void {
    if (this.phase !== "idle") return;
    if (this.graceMs === 0) {
      this.kill();
      return;
    }
    this.phase = "asking";
    // Twice: a process may have forked while the first look was taken.
    for (let pass = 0; pass < 2; pass += 1) for (const process of this.control.living()) this.ask(process);
    this.timers.push(this.loop.after(this.graceMs, () => this.kill()));
    this.look();
  }

  /** Kills without grace, whatever was done before. */
  kill(): void {
    if (this.phase === "killing" || this.phase === "finished") return;
    const wasIdle = this.phase === "idle";
    this.phase = "killing";
    this.timers.push(this.loop.after(GIVE_UP_MS, () => this.giveUp()));
    if (wasIdle) this.look();
    else this.killLiving();
  }

  /** What the receipt says; null when nothing was ever stopped. */
  record(): Receipt["terminated"] {
    if (this.phase === "idle") return null;
    return { signalled: this.signalled.size, killed: this.killed.size, survivors: this.survivors };
  }

  private ask(process: ProcessState): void {
    const name = nameOf(process);
    if (this.signalled.has(name) || !this.control.signal(process, SIGTERM)) return;
    this.control.signal(process, SIGCONT);
    this.signalled.add(name);
    this.onSignal("SIGTERM", process.pid);
  }

  private killLiving(): void {
    for (const process of this.control.living()) {
      if (!this.control.signal(process, SIGKILL)) continue;
      const name = nameOf(process);
      if (!this.killed.has(name)) this.onSignal("SIGKILL", process.pid);
      this.signalled.add(name);
      this.killed.add(name);
    }
  }

  private look(): void {
    if (this.phase === "killing") this.killLiving();
    if (this.control.living().length === 0) this.finish();
    else if (this.phase !== "finished") this.loop.after(LOOK_MS, () => this.look());
  }

  private giveUp(): void {
    this.survivors = this.control.living().map(({ pid }) => ({ pid, argv0: argv0Of(pid) }));
    this.finish();
  }

  private finish(): void {
    this.phase = "finished";
    for (const timer of this.timers) timer.cancel();
  }
}

/** A pid and its start: a name no later process has. */
function nameOf({ pid, startTicks }: ProcessState): string {
  return `${pid} ${startTicks}`;
}

function argv0Of(pid: number): string {
  const words = readWhole(`/proc/${pid}/cmdline`);
  const end = words?.indexOf(0) ?? -1;
  return words === null || end <= 0 ? "unknown" : makeVisible(displayBytes(words.subarray(0, end)));
}
