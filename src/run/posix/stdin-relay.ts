/**
 * Forwards our stdin into the child's, with back-pressure: nothing is read while the child has not taken what was read
 * before. Ends with the child, so that a producer that never closes keeps nothing alive.
 */
import { isErrno } from "../../base/errors.ts";
import { closeFile, readOnce, writeOnce } from "../../base/files.ts";
import { memory } from "../../base/libc.ts";
import type { ChildEvents } from "../launcher.ts";
import type { PollLoop } from "./poll-loop.ts";

const READ_BYTES = 64 * 1024;

export class StdinRelay {
  private readonly loop: PollLoop;
  private readonly source: number;
  private readonly sink: number;
  private readonly events: ChildEvents;
  private readonly buffer = memory(READ_BYTES);
  /** What may still be read; null without a budget. */
  private left: number | null;
  private readonly eof: Uint8Array | null;
  private pending: Uint8Array | null = null;
  /** For room in the child's pipe. */
  private waiting = false;
  private endAfterPending: "budget" | null = null;
  private open = true;

  /** `sink` is ours to close and does not block. `eof` is what ends a terminal's input; null: closing ends it. */
  constructor(
    loop: PollLoop,
    source: number,
    sink: number,
    { budgetBytes, eof }: { budgetBytes: number | null; eof: Uint8Array | null },
    events: ChildEvents,
  ) {
    this.loop = loop;
    this.source = source;
    this.sink = sink;
    this.left = budgetBytes;
    this.eof = eof;
    this.events = events;
    loop.watch(source, () => this.read());
  }

  /** The child has ended: nobody reads any more. */
  childEnded(): void {
    if (this.open) this.end("child_closed");
  }

  private stop(): void {
    if (!this.open) return;
    this.open = false;
    this.loop.unwatch(this.source);
    this.loop.unwatch(this.sink);
    closeFile(this.sink);
  }

  private end(reason: Parameters<ChildEvents["inputEnd"]>[0]): void {
    if (this.eof !== null && (reason === "eof" || reason === "budget")) this.typeEof(this.eof);
    this.stop();
    this.events.inputEnd(reason);
  }

  private typeEof(eof: Uint8Array): void {
    try {
      writeOnce(this.sink, eof);
    } catch {
      // The terminal has gone with the child, or takes no more: then there is nobody to tell.
    }
  }

  private read(): void {
    let count: number;
    try {
      count = readOnce(this.source, this.buffer);
    } catch (error) {
      if (!isErrno(error, "EAGAIN") && !isErrno(error, "EINTR")) this.end("error");
      return;
    }
    if (count === 0) {
      this.end("eof");
      return;
    }
    const granted = this.left === null ? count : Math.min(count, this.left);
    // Only a byte beyond the budget says that it was reached.
    if (granted < count) this.endAfterPending = "budget";
    if (this.left !== null) this.left -= granted;
    if (granted > 0) this.events.input(this.buffer.subarray(0, granted));
    this.pending = this.buffer.subarray(0, granted);
    this.loop.unwatch(this.source);
    this.write();
  }

  private write(): void {
    let pending = this.pending ?? this.buffer.subarray(0, 0);
    while (pending.length > 0) {
      try {
        pending = pending.subarray(writeOnce(this.sink, pending));
      } catch (error) {
        if (!isErrno(error, "EAGAIN")) {
          // A child that closes its stdin early has had enough; that is no error.
          this.end(isErrno(error, "EPIPE") ? "child_closed" : "error");
          return;
        }
        this.pending = pending;
        if (!this.waiting) this.loop.watchWritable(this.sink, () => this.write());
        this.waiting = true;
        return;
      }
    }
    this.pending = null;
    if (this.waiting) this.loop.unwatch(this.sink);
    this.waiting = false;
    if (this.endAfterPending !== null) this.end(this.endAfterPending);
    else this.loop.watch(this.source, () => this.read());
  }
}
