/** A child under the poll loop: its pipes, its end, and who still holds its streams. */

import { isTerminal } from "../../base/descriptors.ts";
import { errorReason, isErrno } from "../../base/errors.ts";
import { closeFile, listDirectory, readOnce, readProcText, readSymlink } from "../../base/files.ts";
import { type Libc, monotonicClockNs } from "../../base/libc.ts";
import { signalName } from "../../base/signals.ts";
import type { LateCapture } from "../late-capture.ts";
import type { Child, ChildEvents, OutputStream } from "../launcher.ts";
import type { PollLoop } from "./poll-loop.ts";
import { openPidfd, type PosixProcessControl, reap } from "./process-control.ts";
import { resizePty } from "./pty.ts";
import { startDrainer } from "./start-drainer.ts";
import type { StdinRelay } from "./stdin-relay.ts";

/** Bytes of a pipe. The system's default unprivileged maximum: fewer, larger reads under a flood. */
export const PIPE_BYTES = 1 << 20;
const READ_BYTES = 256 * 1024;
const TERMINAL_REST_MS = 10;
/** Without pidfd_open the child's end is asked for at this interval. */
const REAP_MS = 5;

export interface PosixChildParts {
  libc: Libc;
  loop: PollLoop;
  control: PosixProcessControl;
  pid: number;
  /** Read ends, ours to close. */
  outputs: ReadonlyMap<OutputStream, number>;
  relay: StdinRelay | null;
  events: ChildEvents;
  /** A signal that ended the child has reached us as well: it is told first, as its cause. */
  beforeExit: () => void;
}

export class PosixChild implements Child {
  readonly pid: number;
  private readonly libc: Libc;
  private readonly loop: PollLoop;
  private readonly control: PosixProcessControl;
  private readonly relay: StdinRelay | null;
  private readonly events: ChildEvents;
  private readonly beforeExit: () => void;
  private readonly open: Map<OutputStream, number>;
  private hasExited = false;
  private readonly buffer = new Uint8Array(new ArrayBuffer(READ_BYTES));

  constructor({ libc, loop, control, pid, outputs, relay, events, beforeExit }: PosixChildParts) {
    this.pid = pid;
    this.libc = libc;
    this.loop = loop;
    this.control = control;
    this.relay = relay;
    this.events = events;
    this.beforeExit = beforeExit;
    this.open = new Map(outputs);
    for (const [stream, fd] of outputs) loop.watch(fd, () => this.read(stream, fd));
    this.watchExit();
  }

  resize(): void {
    for (const fd of this.open.values()) resizePty(this.libc, fd);
  }

  drain(stream: OutputStream): void {
    for (let left = PIPE_BYTES; left > 0; ) {
      const fd = this.open.get(stream);
      if (fd === undefined || !this.loop.isReadable(fd)) return;
      left -= this.read(stream, fd);
    }
    // Behind exactly one pipe of bytes the end of file may stand.
    const fd = this.open.get(stream);
    if (fd !== undefined && this.loop.isReadable(fd)) this.read(stream, fd);
  }

  pause(stream: OutputStream): void {
    const fd = this.open.get(stream);
    if (fd !== undefined) this.loop.unwatch(fd);
  }

  resume(stream: OutputStream): void {
    const fd = this.open.get(stream);
    if (fd !== undefined) this.loop.watch(fd, () => this.read(stream, fd));
  }

  release(stream: OutputStream): void {
    const fd = this.open.get(stream);
    if (fd === undefined) return;
    this.open.delete(stream);
    this.loop.unwatch(fd);
    closeFile(fd);
  }

  handOff(streams: readonly OutputStream[], late: Omit<LateCapture, "startNs">, elapsedNs: number): boolean {
    const ends = new Map([...this.open].filter(([stream]) => streams.includes(stream)));
    const startNs = monotonicClockNs(this.libc) - elapsedNs;
    const started = ends.size > 0 && startDrainer(this.libc, ends, { ...late, startNs });
    for (const stream of ends.keys()) this.release(stream);
    return started;
  }

  holders(stream: OutputStream): number[] {
    const fd = this.open.get(stream);
    const pipe = fd === undefined ? null : readSymlink(`/proc/self/fd/${fd}`)?.toString("latin1");
    if (pipe === null || pipe === undefined) return [];
    return this.control
      .living()
      .map(({ pid }) => pid)
      .filter((pid) => writesTo(pid, pipe));
  }

  /** One read of a readable pipe; the number of bytes. */
  private read(stream: OutputStream, fd: number): number {
    let count = 0;
    let error: string | null = null;
    try {
      count = readOnce(fd, this.buffer);
    } catch (failure) {
      if (isErrno(failure, "EINTR") || isErrno(failure, "EAGAIN")) return 0;
      if (isErrno(failure, "EIO") && isTerminal(fd)) return this.rest(stream, fd);
      error = errorReason(failure);
    }
    if (count > 0) {
      this.events.chunk(stream, this.buffer.subarray(0, count));
      return count;
    }
    this.release(stream);
    this.events.end(stream, error);
    return 0;
  }

  /**
   * Nobody has the pseudo-terminal open (EIO). It is the end of file only once the child has ended: closing our side
   * earlier would send the child SIGHUP, and it may open its terminal again.
   */
  private rest(stream: OutputStream, fd: number): number {
    this.loop.unwatch(fd);
    if (this.hasExited) {
      this.release(stream);
      this.events.end(stream, null);
    } else {
      this.loop.after(TERMINAL_REST_MS, () => this.resume(stream));
    }
    return 0;
  }

  private watchExit(): void {
    const pidfd = openPidfd(this.libc, this.pid);
    if (pidfd < 0) {
      const ask = () => {
        if (!this.reap()) this.loop.after(REAP_MS, ask);
      };
      ask();
      return;
    }
    this.loop.watch(pidfd, () => {
      if (!this.reap()) return;
      this.loop.unwatch(pidfd);
      closeFile(pidfd);
    });
  }

  private reap(): boolean {
    const reaped = reap(this.libc, this.pid);
    if (reaped === null) return false;
    this.hasExited = true;
    this.relay?.childEnded();
    this.beforeExit();
    const { status, userMs, systemMs, maxRssBytes } = reaped;
    const signal = status & 0x7f;
    this.events.exit({
      exit:
        signal === 0
          ? { kind: "code", code: (status >> 8) & 0xff, signal: null }
          : { kind: "signal", code: null, signal: signalName(signal) },
      userMs,
      systemMs,
      maxRssBytes,
    });
    return true;
  }
}

/** Whether the process has the pipe open for writing. */
function writesTo(pid: number, pipe: string): boolean {
  for (const fd of listDirectory(`/proc/${pid}/fd`) ?? []) {
    if (readSymlink(`/proc/${pid}/fd/${fd}`)?.toString("latin1") !== pipe) continue;
    const flags = readProcText(`/proc/${pid}/fdinfo/${fd}`);
    if (/^flags:\s+[0-7]*[12]$/m.test(flags ?? "")) return true;
  }
  return false;
}
