/**
 * What it takes to start a child and observe it. Two implementations: `posix` (posix_spawnp through FFI, real pipes,
 * everything of the caller handed on) and `portable` (Bun.spawn, where FFI does not work). One conformance suite
 * runs over both and lists what the portable one cannot do.
 */
import type { Exit } from "../evidence/receipt.ts";
import type { LateCapture } from "./late-capture.ts";
import type { ProcessControl } from "./process-control.ts";

export type OutputStream = "stdout" | "stderr";

export interface LaunchRequest {
  /** Byte strings; the first is looked up on PATH as execvp does. Not empty. */
  argv: readonly Uint8Array[];
  /** Changes over the caller's environment, null for "nothing added, nothing removed". */
  environment: EnvironmentChange | null;
  /** Working directory, null for the caller's. */
  cwd: Uint8Array | null;
  /** The caller's PATH, null when it has none. */
  searchPath: string | null;
  stdin: StdinPlan;
  /** The child's stdin, stdout and stderr are one pseudo-terminal, in a session of its own; observed as stdout. */
  pty: boolean;
  /** A descriptor of the caller's that is for us and not for the child. */
  withheld: number | null;
}

/** What the child gets as stdin. `capture`: a pipe that our own stdin is forwarded into, at most `budgetBytes` of it. */
export type StdinPlan =
  | { kind: "inherit" }
  | { kind: "null" }
  | { kind: "file"; path: Uint8Array }
  | { kind: "capture"; budgetBytes: number | null };

export interface EnvironmentChange {
  set: ReadonlyMap<string, Uint8Array>;
  unset: ReadonlySet<string>;
}

export interface ExitStatus {
  exit: Exit;
  userMs: number;
  systemMs: number;
  /** The kernel's ru_maxrss; null where it is not given. Includes the broker's own size at the start. */
  maxRssBytes: number | null;
}

/** What a child does, in the order of observation. Called only from within `Loop.turn` and `Child.drain`. */
export interface ChildEvents {
  /** `bytes` is only valid during the call. */
  chunk(stream: OutputStream, bytes: Uint8Array): void;
  /** End of file (`error` null) or a read error by its errno. */
  end(stream: OutputStream, error: string | null): void;
  exit(status: ExitStatus): void;
  /** Forwarded stdin, before the child gets it. `bytes` is only valid during the call. */
  input(bytes: Uint8Array): void;
  /** Forwarding has ended. `budget`: there was more than the budget, and the child has got exactly the budget. */
  inputEnd(reason: "eof" | "child_closed" | "budget" | "error"): void;
}

export interface Child {
  readonly pid: number;
  /** The caller's terminal has another size: the child's pseudo-terminal gets it too. */
  resize(): void;
  /**
   * Reads what is in the stream's pipe now, at most one pipe's capacity. After the child's exit this is everything
   * the child wrote, whoever else still writes.
   */
  drain(stream: OutputStream): void;
  /** Reads no more of the stream until `resume`: what is written stays in the pipe, and a full pipe makes the writer wait. */
  pause(stream: OutputStream): void;
  resume(stream: OutputStream): void;
  /** Stops reading the stream, whose pipe may still be written to, and closes our end. */
  release(stream: OutputStream): void;
  /** Gives open streams, with what is in their pipes, to a drainer. False when there can be none. */
  handOff(streams: readonly OutputStream[], late: Omit<LateCapture, "startNs">, elapsedNs: number): boolean;
  /** Which processes still hold the write end of the stream's pipe. */
  holders(stream: OutputStream): number[];
}

/** A signal to the broker. */
export interface ReceivedSignal {
  name: string;
  number: number;
  /** Sent by the kernel for the terminal: the whole foreground group has got it. */
  fromTerminal: boolean;
}

export type Started = { kind: "started"; child: Child } | { kind: "failed"; errno: string };

export interface Timer {
  cancel(): void;
}

/** Waits for whatever comes first. Timers and signals are prompt however busy the streams are. */
export interface Loop {
  /** Calls `action` once in `turn`, `ms` from now. Any size of `ms` is fine. */
  after(ms: number, action: () => void): Timer;
  /** Calls `action` in each turn in which `fd` takes bytes, or its reader has gone. */
  watchWritable(fd: number, action: () => void): void;
  /** Ends every watch of `fd`. */
  unwatch(fd: number): void;
  /** One wait and everything that has become ready. */
  turn(): Promise<void>;
}

export interface Launcher {
  readonly name: "posix" | "portable";
  readonly loop: Loop;
  /** Which of descriptors 0, 1 and 2 the caller had closed. */
  readonly closed: readonly number[];
  readonly control: ProcessControl;
  /** Whether the caller handed us this descriptor. */
  isOpenAtCaller(fd: number): boolean;
  /** The first value of a variable in the caller's environment; null when it is not set. */
  readVariable(name: string): Uint8Array | null;
  /** Whether stdin is a pipe that nobody else reads; in doubt it is not. */
  ownsStdin(): boolean;
  /** Reports these signals from now on, but those that the caller ignores: they stay ignored. */
  watchSignals(numbers: readonly number[], onSignal: (signal: ReceivedSignal) => void, onChild: () => void): void;
  start(request: LaunchRequest, events: ChildEvents): Started;
}
