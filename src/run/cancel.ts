/**
 * What signals to the broker do. One that was sent to us alone is forwarded once, and the child may clean up and end by
 * itself within the grace time; a second one kills. The terminal's Ctrl-C has reached the child already: it is not
 * delivered twice and forces nothing, unless it is typed again within a second.
 */
import { monotonicNs } from "../base/clock.ts";
import { signalName } from "../base/signals.ts";
import type { Exit } from "../evidence/receipt.ts";
import type { Ending } from "./ending.ts";
import type { Loop, ReceivedSignal } from "./launcher.ts";
import type { TreeStopper } from "./stop-tree.ts";

/** Names in the order of their numbers: HUP INT QUIT TERM cancel, USR1 USR2 WINCH are passed on. */
export const CANCELLING = [1, 2, 3, 15];
export const PASSED_ON = [10, 12, 28];
const TYPED_AGAIN_NS = 1e9;

export class Cancellation {
  private readonly ending: Ending;
  private readonly stopper: TreeStopper;
  private readonly loop: Loop;
  private readonly graceMs: number;
  /** Sends a signal to the child alone. */
  private readonly forward: (signal: ReceivedSignal) => void;
  private sent = false;
  private typed: { number: number; atNs: number } | null = null;
  private childLives = true;

  constructor(parts: {
    ending: Ending;
    stopper: TreeStopper;
    loop: Loop;
    graceMs: number;
    forward: (signal: ReceivedSignal) => void;
  }) {
    this.ending = parts.ending;
    this.stopper = parts.stopper;
    this.loop = parts.loop;
    this.graceMs = parts.graceMs;
    this.forward = parts.forward;
  }

  receive(signal: ReceivedSignal): void {
    if (!CANCELLING.includes(signal.number)) {
      if (!signal.fromTerminal && this.childLives) this.forward(signal);
    } else if (signal.fromTerminal && signal.name !== "SIGHUP") this.type(signal);
    else this.cancel(signal);
  }

  /** The child has ended: what it leaves behind of a cancelled run is stopped. */
  childExited(exit: Exit): void {
    this.childLives = false;
    const typed = this.typed;
    if (typed !== null && isAnswerTo(typed.number, exit, monotonicNs() - typed.atNs, this.graceMs)) {
      this.ending.set({ state: "cancelled", signal: typed.number });
    }
    if (this.ending.state === "cancelled") this.stopper.stop();
  }

  private type(signal: ReceivedSignal): void {
    const now = monotonicNs();
    if (this.typed !== null && now - this.typed.atNs < TYPED_AGAIN_NS) {
      this.ending.set({ state: "cancelled", signal: signal.number });
      this.stopper.kill();
    }
    this.typed = { number: signal.number, atNs: now };
  }

  private cancel(signal: ReceivedSignal): void {
    if (this.sent) {
      this.stopper.kill();
      return;
    }
    // A child that has ended by itself has its result: nothing is cancelled any more.
    if (!this.childLives) return;
    this.sent = true;
    this.ending.set({ state: "cancelled", signal: signal.number });
    // A hangup of the terminal has reached the child as well.
    if (!signal.fromTerminal) this.forward(signal);
    this.loop.after(this.graceMs, () => this.stopper.stop());
  }
}

/**
 * Whether the child's end answers the key that was typed. A program that handles Ctrl-C and goes on (an interpreter, a
 * pager) ends later by itself, as a completed run.
 */
function isAnswerTo(number: number, exit: Exit, sinceNs: number, graceMs: number): boolean {
  return exit.signal === signalName(number) || exit.code === 128 + number || sinceNs <= graceMs * 1e6;
}
