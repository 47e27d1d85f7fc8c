/**
 * `--tee`: the child's output also goes to our own stdout and stderr, byte for byte and live. A slow reader slows the
 * child, as in a pipeline; one that has gone is no longer written to, and the child is not told.
 */
import { descriptorState, writeOnce } from "../base/files.ts";
import type { Child, Loop, OutputStream } from "./launcher.ts";

/** A pipe that polls as writable takes this much without blocking (PIPE_BUF). */
const STEP_BYTES = 4096;

export class PassThrough {
  private readonly loop: Loop;
  private readonly fd: number;
  private readonly stream: OutputStream;
  /** A file never blocks; everything else is written in steps. */
  private readonly stepBytes: number;
  private pending: Buffer | null = null;
  private isOpen: boolean;

  constructor(loop: Loop, stream: OutputStream) {
    this.loop = loop;
    this.stream = stream;
    this.fd = stream === "stdout" ? 1 : 2;
    const state = descriptorState(this.fd);
    this.isOpen = state !== null;
    this.stepBytes = state?.kind === "file" ? Number.POSITIVE_INFINITY : STEP_BYTES;
  }

  /** Everything that was passed on has been written, or nobody wants it. */
  get isIdle(): boolean {
    return this.pending === null;
  }

  /** Passes bytes on. Reading from the child rests until they are written. */
  pass(bytes: Uint8Array, child: Child): void {
    if (!this.isOpen) return;
    const copy = Buffer.from(bytes);
    if (this.pending !== null) {
      this.pending = Buffer.concat([this.pending, copy]);
      return;
    }
    this.pending = copy;
    child.pause(this.stream);
    this.loop.watchWritable(this.fd, () => this.write(child));
  }

  /** Nothing more is written: the run is being stopped and must not wait for a reader. */
  abandon(child: Child): void {
    this.isOpen = false;
    this.rest(child);
  }

  private write(child: Child): void {
    const pending = this.pending;
    if (pending === null) return;
    try {
      const count = writeOnce(this.fd, pending.subarray(0, this.stepBytes));
      this.pending = pending.subarray(count);
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code;
      if (code === "EAGAIN") return;
      // The reader has gone, or the sink is full: the run itself goes on.
      this.isOpen = false;
    }
    if (!this.isOpen || this.pending?.length === 0) this.rest(child);
  }

  private rest(child: Child): void {
    if (this.pending === null) return;
    this.pending = null;
    this.loop.unwatch(this.fd);
    child.resume(this.stream);
  }
}
