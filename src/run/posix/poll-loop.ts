/**
 * One synchronous poll(2) over the pipes, the child's pidfd and the runtime's own event descriptor. Nothing is read
 * ahead, so a descriptor can be handed on without losing a byte; and a stream that is always ready cannot starve a
 * timer or a signal: each descriptor gets one read a turn, then timers run, then the runtime's events.
 */
import { integers, type Libc } from "../../base/libc.ts";
import type { Loop, Timer } from "../launcher.ts";
import { Timers } from "../timers.ts";

const POLLIN = 1;
const POLLOUT = 4;
const MAX_WAIT_MS = 2 ** 30;

interface Watch {
  fd: number;
  events: number;
  action: () => void;
}

export class PollLoop implements Loop {
  private readonly libc: Libc;
  private readonly timers = new Timers();
  private readonly wake: number | null;
  private watches: Watch[] = [];
  private pollfds = integers(16);

  /** `wake` is the runtime's event descriptor; without one the runtime gets no turn while we wait. */
  constructor(libc: Libc, wake: number | null) {
    this.libc = libc;
    this.wake = wake;
  }

  after(ms: number, action: () => void): Timer {
    return this.timers.after(ms, action);
  }

  /** Calls `action` in each turn in which `fd` has bytes to read, end of file or an error. */
  watch(fd: number, action: () => void): void {
    this.watches = [...this.watches, { fd, events: POLLIN, action }];
  }

  /** Calls `action` in each turn in which `fd` takes bytes, or its reader has gone. */
  watchWritable(fd: number, action: () => void): void {
    this.watches = [...this.watches, { fd, events: POLLOUT, action }];
  }

  unwatch(fd: number): void {
    this.watches = this.watches.filter((watch) => watch.fd !== fd);
  }

  isReadable(fd: number): boolean {
    this.set(0, fd, POLLIN);
    return this.libc.poll(this.pollfds, 1, 0) === 1;
  }

  async turn(): Promise<void> {
    const watches = this.watches;
    if (this.pollfds.length < (watches.length + 1) * 2) this.pollfds = integers((watches.length + 8) * 2);
    for (let i = 0; i < watches.length; i += 1) this.set(i, watches[i]!.fd, watches[i]!.events);
    if (this.wake !== null) this.set(watches.length, this.wake, POLLIN);
    const count = watches.length + (this.wake === null ? 0 : 1);
    const next = this.timers.untilNext();
    // A negative answer is EINTR: a signal that the runtime has noted and that it handles in its own turn.
    const ready = this.libc.poll(this.pollfds, count, Math.min(next ?? MAX_WAIT_MS, MAX_WAIT_MS));
    const wakes = this.wake !== null && (ready < 0 || this.isSet(watches.length));
    if (ready > 0) {
      for (let i = 0; i < watches.length; i += 1) {
        // An earlier action of this turn may have ended this watch and closed its descriptor.
        if (this.isSet(i) && this.watches.includes(watches[i]!)) watches[i]!.action();
      }
    }
    this.timers.run();
    if (wakes) await runtimeTurn();
  }

  private set(index: number, fd: number, events: number): void {
    this.pollfds[index * 2] = fd;
    this.pollfds[index * 2 + 1] = events;
  }

  private isSet(index: number): boolean {
    return this.pollfds[index * 2 + 1]! >>> 16 !== 0;
  }
}

/** Lets the runtime deliver its signals and timers. */
function runtimeTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
