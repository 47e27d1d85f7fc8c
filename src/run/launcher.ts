/**
 * What it takes to start a child and observe it. Two implementations: `posix` (posix_spawnp through FFI, real pipes,
 * everything of the caller handed on) and `portable` (Bun.spawn, where FFI does not work). One conformance suite
 * runs over both and lists what the portable one cannot do.
 */
import type { Exit } from "../evidence/receipt.ts";

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
}

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
}

export interface Child {
  readonly pid: number;
  /**
   * Reads what is in the stream's pipe now, at most one pipe's capacity. After the child's exit this is everything
   * the child wrote, whoever else still writes.
   */
  drain(stream: OutputStream): void;
  /** Stops reading the stream; what is in the pipe stays there. */
  release(stream: OutputStream): void;
}

export type Started = { kind: "started"; child: Child } | { kind: "failed"; errno: string };

export interface Timer {
  cancel(): void;
}

/** Waits for whatever comes first. Timers and signals are prompt however busy the streams are. */
export interface Loop {
  /** Calls `action` once in `turn`, `ms` from now. Any size of `ms` is fine. */
  after(ms: number, action: () => void): Timer;
  /** One wait and everything that has become ready. */
  turn(): Promise<void>;
}

export interface Launcher {
  readonly name: "posix" | "portable";
  readonly loop: Loop;
  /** Which of descriptors 0, 1 and 2 the caller had closed. */
  readonly closed: readonly number[];
  /** Throws AshError `cannot_capture` when the system has no room for another pipe. */
  start(request: LaunchRequest, events: ChildEvents): Started;
}
