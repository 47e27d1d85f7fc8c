/** From the child's start to the end of its streams: what is seen is stored, limits are kept, signals are acted on. */
import { formatTime, monotonicNs, wallMs } from "../base/clock.ts";
import type { Event } from "../evidence/event.ts";
import type { HostState } from "../evidence/receipt.ts";
import { Budget } from "./budget.ts";
import { CANCELLING, Cancellation, PASSED_ON } from "./cancel.ts";
import { Ending } from "./ending.ts";
import { readHostState } from "./host-state.ts";
import { FLUSH_MS } from "./journal.ts";
import type { Child, ChildEvents, ExitStatus, Launcher, LaunchRequest, OutputStream, Started } from "./launcher.ts";
import { PassThrough } from "./pass-through.ts";
import { readMemory, readProcess } from "./process-tree.ts";
import { explainStartFailure } from "./program-lookup.ts";
import { keepRoomFor, type Recording, recordStdin } from "./recording.ts";
import type { RunRequest } from "./request.ts";
import { Sampler } from "./sampler.ts";
import { TreeStopper } from "./stop-tree.ts";
import type { StreamCapture } from "./stream-capture.ts";

/** Within 100 ms of its end an adopted orphan is collected. */
const REAP_MS = 50;
const WARM_UP_MS = 20;

export interface Holder {
  stream: OutputStream;
  pids: number[];
}

export class Observation {
  readonly ending = new Ending();
  readonly stopper: TreeStopper;
  readonly sampler: Sampler;
  startNs = 0;
  startedMs = 0;
  pid: number | null = null;
  exit: ExitStatus | null = null;
  /** From the child's start to its exit. */
  wallNs = 0;
  endedMs = 0;
  /** Our own peak when the child was started. */
  floorBytes: number | null = null;
  cpuPartial = false;
  before: HostState | null = null;
  /** Streams that somebody still had when the run was finalized. */
  heldOpen: Holder[] = [];
  child: Child | null = null;
  private readonly recording: Recording;
  private readonly launcher: Launcher;
  private readonly request: RunRequest;
  private readonly budget: Budget;
  private readonly cancellation: Cancellation;
  private readonly open: Set<OutputStream>;
  private readonly passThrough: Record<OutputStream, PassThrough> | null;
  private orphanCpu = { userMs: 0, systemMs: 0 };
  private lingered = false;
  private hurried = false;
  private flushArmed = false;
  private reapingArmed = false;

  constructor(request: RunRequest, launcher: Launcher, recording: Recording) {
    const { loop, control } = launcher;
    this.request = request;
    this.launcher = launcher;
    this.recording = recording;
    this.budget = new Budget(request.limits.maxOutputBytes);
    this.open = request.pty
      ? new Set(["stdout"])
      : new Set((["stdout", "stderr"] as const).filter((_, i) => !launcher.closed.includes(i + 1)));
    for (const stream of ["stdout", "stderr"] as const) {
      if (!this.open.has(stream)) recording[stream].ended = "closed";
    }
    this.passThrough = request.tee
      ? { stdout: new PassThrough(loop, "stdout"), stderr: new PassThrough(loop, "stderr") }
      : null;
    this.stopper = new TreeStopper(loop, control, request.limits.killAfterMs, (signal, pid) =>
      this.append({ type: "signal", direction: "sent", signal, pid }),
    );
    this.cancellation = new Cancellation({
      ending: this.ending,
      stopper: this.stopper,
      loop,
      graceMs: request.limits.killAfterMs,
      forward: (signal) => this.forward(signal.name, signal.number),
    });
    this.sampler = new Sampler(launcher, request.sampleMs, (sample) => {
      keepRoomFor(recording);
      this.append({
        type: "sample",
        ...sample,
        stdout_bytes: recording.stdout.bytes,
        stderr_bytes: recording.stderr.bytes,
      });
    });
  }

  /** Nanoseconds since the child's start. */
  elapsedNs(): number {
    return monotonicNs() - this.startNs;
  }

  /** What is left of the output budget; null without one. */
  get budgetLeft(): number | null {
    return this.budget.left;
  }

  /** Starts the child. Signals are watched before, so that none finds us between the two. */
  start(launch: LaunchRequest, argvSha256: string): Started {
    const { request } = this;
    this.launcher.watchSignals(
      [...CANCELLING, ...PASSED_ON],
      (signal) => {
        this.append({ type: "signal", direction: "received", signal: signal.name });
        // Whoever wants us to end has no use for what only we still wait for.
        if (this.exit !== null && CANCELLING.includes(signal.number)) this.hurried = true;
        if (signal.name === "SIGWINCH" && request.pty) this.child?.resize();
        // A child on a terminal of its own hears nothing of ours.
        else this.cancellation.receive(request.pty ? { ...signal, fromTerminal: false } : signal);
      },
      () => this.armReaping(),
    );
    this.startNs = monotonicNs();
    this.startedMs = wallMs();
    this.endedMs = this.startedMs;
    const started = this.launcher.start(launch, this.events(launch));
    this.pid = started.kind === "started" ? started.child.pid : null;
    this.recording.journal.append({
      type: "run_started",
      elapsed_ns: 0,
      pid: this.pid,
      argv_sha256: argvSha256,
      at: formatTime(this.startedMs),
    });
    this.before = readHostState();
    if (started.kind === "failed") {
      this.ending.set({ state: "failed_to_start", failure: explainStartFailure(launch, started.errno) });
      for (const stream of this.open) this.end(stream, "eof");
    } else {
      this.child = started.child;
      this.floorBytes = readMemory("self")?.peakBytes ?? null;
    }
    return started;
  }

  /** Watches the child until it and what is to be waited for has ended. */
  async watch(): Promise<void> {
    const { loop } = this.launcher;
    const { timeoutMs } = this.request.limits;
    if (timeoutMs !== null) loop.after(timeoutMs, () => this.stop("timed_out", "timeout_ms", timeoutMs));
    this.sampler.start();
    // The image starts with a compiler that waits; a run that lasts is worth compiling for.
    loop.after(WARM_UP_MS, () => Bun.unsafe.setJITPolicy(1));
    while (
      this.exit === null ||
      !this.stopper.isSettled ||
      (this.open.size > 0 && !this.lingered && !this.hurried) ||
      !this.isPassedOn()
    ) {
      this.armFlush();
      await loop.turn();
    }
    for (const stream of this.open) this.child?.drain(stream);
    this.cpuPartial = this.reapOrphans() > 0;
    for (const stream of [...this.open]) {
      this.heldOpen.push({ stream, pids: this.child?.holders(stream) ?? [] });
      this.end(stream, "held_open");
    }
  }

  private events(launch: LaunchRequest): ChildEvents {
    const stdin = launch.stdin.kind === "capture" ? recordStdin(this.recording) : null;
    return {
      chunk: (stream, bytes) => this.chunk(stream, bytes),
      end: (stream, error) => this.end(stream, error === null ? "eof" : "error"),
      exit: (status) => this.exited(status),
      input: (bytes) => {
        if (stdin !== null) this.store("stdin", stdin, bytes);
      },
      inputEnd: (reason) => {
        if (stdin === null) return;
        stdin.ended = reason === "child_closed" ? "closed" : reason;
        this.append({ type: "stdin_end", bytes: stdin.bytes, reason });
        if (reason !== "budget") return;
        stdin.cut = true;
        this.limit("input_limited", "stdin_bytes", this.request.limits.maxStdinBytes ?? 0);
        // The child may read what it got to its end before it is stopped.
        this.launcher.loop.after(this.request.limits.lingerMs, () => this.stopper.stop());
      },
    };
  }

  /** Our own reader has got everything; one that holds up a run that is being stopped is given up. */
  private isPassedOn(): boolean {
    if (this.passThrough === null || this.child === null) return true;
    const { stdout, stderr } = this.passThrough;
    if (this.hurried || (this.exit !== null && this.ending.state !== "completed")) {
      stdout.abandon(this.child);
      stderr.abandon(this.child);
    }
    return stdout.isIdle && stderr.isIdle;
  }

  private chunk(stream: OutputStream, bytes: Uint8Array): void {
    const capture = this.recording[stream];
    const granted = this.budget.take(bytes.length);
    if (granted > 0) this.store(stream, capture, granted === bytes.length ? bytes : bytes.subarray(0, granted));
    if (this.child !== null) this.passThrough?.[stream].pass(bytes, this.child);
    if (granted === bytes.length) return;
    // Nothing beyond the budget is kept, but all of it is read: a child that cleans up must not block on us.
    capture.lostBytes += bytes.length - granted;
    capture.cut = true;
    this.stop("output_limited", "output_bytes", this.request.limits.maxOutputBytes ?? 0);
  }

  private store(stream: "stdin" | OutputStream, capture: StreamCapture, bytes: Uint8Array): void {
    const offset = capture.bytes;
    const failedBefore = capture.failure !== null;
    const received = offset + capture.lostBytes;
    const stored = capture.write(bytes);
    // Without a place the events are only kept in memory, for the answer.
    if (this.recording.place === null) this.recording.journal.chunk(stream, received, bytes.length, this.elapsedNs());
    else if (stored > 0) this.recording.journal.chunk(stream, offset, stored, this.elapsedNs());
    if (capture.failure !== null && !failedBefore) {
      this.append({ type: "storage_error", stream, reason: capture.failure });
    }
  }

  private end(stream: OutputStream, reason: "eof" | "error" | "held_open"): void {
    this.open.delete(stream);
    const capture = this.recording[stream];
    capture.ended = capture.cut ? "budget" : reason;
    this.append({ type: "stream_end", stream, reason: capture.ended, bytes: capture.bytes });
  }

  private exited(status: ExitStatus): void {
    this.exit = status;
    this.wallNs = this.elapsedNs();
    this.endedMs = wallMs();
    this.sampler.stop();
    const { kind, code, signal } = status.exit;
    this.append({ type: "child_exited", kind: kind === "signal" ? kind : "code", code, signal });
    this.cancellation.childExited(status.exit);
    if (this.ending.state === "input_limited") this.stopper.stop();
    this.launcher.loop.after(this.request.limits.lingerMs, () => {
      for (const stream of this.open) this.child?.drain(stream);
      this.lingered = true;
    });
  }

  private stop(state: "timed_out" | "output_limited", limit: string, value: number): void {
    // A time that passes after the child has ended by itself changes nothing of its result.
    if (this.exit !== null && state === "timed_out") return;
    this.limit(state, limit, value);
    this.stopper.stop();
  }

  private limit(state: "timed_out" | "output_limited" | "input_limited", limit: string, value: number): void {
    if (this.ending.set({ state })) this.append({ type: "limit", limit, value });
  }

  private forward(signal: string, number: number): void {
    if (this.pid === null) return;
    // Without /proc the pid is all that is known of the child.
    const unknown = { pid: this.pid, state: "", ppid: 0, threads: 1, cpuTicks: 0, startTicks: 0 };
    const child = readProcess(this.pid) ?? unknown;
    if (!this.launcher.control.signal(child, number)) return;
    this.append({ type: "signal", direction: "sent", signal, pid: child.pid });
  }

  /** Some child of ours has ended: most often the run's own, whose end needs no look at the others. */
  private armReaping(): void {
    if (this.reapingArmed) return;
    this.reapingArmed = true;
    this.launcher.loop.after(REAP_MS, () => {
      this.reapingArmed = false;
      this.reapOrphans();
    });
  }

  /** How many orphans live on. */
  private reapOrphans(): number {
    if (this.pid === null) return 0;
    const { userMs, systemMs, living } = this.launcher.control.reapOrphans(this.pid);
    this.orphanCpu = { userMs: this.orphanCpu.userMs + userMs, systemMs: this.orphanCpu.systemMs + systemMs };
    return living;
  }

  /** User and system time of the child, what it waited for, and the orphans that we collected. */
  get cpuMs(): { userMs: number; systemMs: number } | null {
    if (this.exit === null) return null;
    const { userMs, systemMs } = this.orphanCpu;
    return { userMs: this.exit.userMs + userMs, systemMs: this.exit.systemMs + systemMs };
  }

  private append(event: DistributiveOmit<Event, "elapsed_ns">): void {
    this.recording.journal.append({ ...event, elapsed_ns: this.elapsedNs() } as Event);
    this.armFlush();
  }

  private armFlush(): void {
    if (this.flushArmed || !this.recording.journal.hasUnwritten) return;
    this.flushArmed = true;
    this.launcher.loop.after(FLUSH_MS, () => {
      this.flushArmed = false;
      this.recording.journal.flush();
    });
  }
}

type DistributiveOmit<T, K extends PropertyKey> = T extends unknown ? Omit<T, K> : never;
