/** Deadlines in order. The two loops share it; neither the runtime's timers nor 32-bit milliseconds are involved. */
import { monotonicNs } from "../base/clock.ts";
import type { Timer } from "./launcher.ts";

export class Timers {
  private due: { at: number; action: () => void }[] = [];

  after(ms: number, action: () => void): Timer {
    const entry = { at: monotonicNs() + ms * 1e6, action };
    this.due.push(entry);
    return {
      cancel: () => {
        const index = this.due.indexOf(entry);
        if (index >= 0) this.due.splice(index, 1);
      },
    };
  }

  /** Milliseconds until the next deadline, rounded up; null when there is none. */
  untilNext(): number | null {
    if (this.due.length === 0) return null;
    let next = Number.POSITIVE_INFINITY;
    for (const entry of this.due) if (entry.at < next) next = entry.at;
    return Math.max(0, Math.ceil((next - monotonicNs()) / 1e6));
  }

  /** Runs what is due in the order of the deadlines; not what an earlier action has cancelled. */
  run(): void {
    if (this.due.length === 0) return;
    const now = monotonicNs();
    const ready = this.due.filter((entry) => entry.at <= now).sort((a, b) => a.at - b.at);
    for (const entry of ready) {
      const index = this.due.indexOf(entry);
      if (index < 0) continue;
      this.due.splice(index, 1);
      entry.action();
    }
  }
}
