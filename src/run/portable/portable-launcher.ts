/**
 * The launcher for platforms without FFI, on Bun.spawn. What it cannot hand on is listed in docs/limits of the README:
 * ignored signals, descriptors from 3 up, arguments that are not UTF-8, the soft limit of open descriptors.
 */

import { decodeUtf8 } from "../../base/bytes.ts";
import { isTerminal } from "../../base/descriptors.ts";
import { isErrno } from "../../base/errors.ts";
import { descriptorState } from "../../base/files.ts";
import { signalName } from "../../base/signals.ts";
import type {
  Child,
  ChildEvents,
  Launcher,
  LaunchRequest,
  Loop,
  OutputStream,
  ReceivedSignal,
  Started,
  Timer,
} from "../launcher.ts";
import { interpretWithSh } from "../program-lookup.ts";
import { Timers } from "../timers.ts";
import { PortableProcessControl } from "./portable-process-control.ts";

/** The longest wait: the runtime's timers take 32 bits of milliseconds. */
const MAX_WAIT_MS = 2 ** 30;

export function openPortableLauncher(): Launcher {
  // A caller that ignores SIGCHLD would make the kernel discard the exit status; a listener undoes that.
  if (process.platform !== "win32") process.on("SIGCHLD", () => {});
  return new PortableLauncher();
}

class PortableLoop implements Loop {
  private readonly timers = new Timers();
  private readonly writable = new Map<number, () => void>();
  private ready: (() => void)[] = [];
  private wake: (() => void) | null = null;

  after(ms: number, action: () => void): Timer {
    return this.timers.after(ms, action);
  }

  /** Writes may block here: every turn is a good one. */
  watchWritable(fd: number, action: () => void): void {
    this.writable.set(fd, action);
  }

  unwatch(fd: number): void {
    this.writable.delete(fd);
  }

  /** Hands an observation to the next turn. */
  post(action: () => void): void {
    this.ready.push(action);
    this.wake?.();
  }

  async turn(): Promise<void> {
    if (this.ready.length === 0 && this.writable.size === 0) await this.wait(this.timers.untilNext());
    const ready = this.ready;
    this.ready = [];
    for (const action of ready) action();
    for (const action of [...this.writable.values()]) action();
    this.timers.run();
  }

  private wait(ms: number | null): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(done, Math.min(ms ?? MAX_WAIT_MS, MAX_WAIT_MS));
      const self = this;
      this.wake = done;
      function done() {
        clearTimeout(timer);
        self.wake = null;
        resolve();
      }
    });
  }
}

class PortableLauncher implements Launcher {
  readonly name = "portable";
  readonly loop = new PortableLoop();
  /** The runtime opens /dev/null in place of closed descriptors; here they cannot be told apart. */
  readonly closed: readonly number[] = [];
  readonly control = new PortableProcessControl();

  isOpenAtCaller(fd: number): boolean {
    return descriptorState(fd) !== null;
  }

  readVariable(name: string): Uint8Array | null {
    const value = process.env[name];
    return value === undefined ? null : Buffer.from(value);
  }

  /** Not to be told here. */
  ownsStdin(): boolean {
    return false;
  }

  watchSignals(numbers: readonly number[], onSignal: (signal: ReceivedSignal) => void): void {
    const terminal = isTerminal(0);
    for (const number of numbers) {
      const name = signalName(number);
      try {
        // Who sent it is not known here: at a terminal, Ctrl-C and Ctrl-\\ are taken to have been typed.
        const fromTerminal = terminal && (name === "SIGINT" || name === "SIGQUIT");
        process.on(name as NodeJS.Signals, () => this.loop.post(() => onSignal({ name, number, fromTerminal })));
      } catch {
        // A platform without this signal.
      }
    }
  }

  start(request: LaunchRequest, events: ChildEvents): Started {
    try {
      return { kind: "started", child: this.spawn(request.argv, request, events) };
    } catch (error) {
      if (!isErrno(error)) throw error;
      const argv = error.code === "ENOEXEC" ? interpretWithSh(request) : null;
      if (argv !== null) return { kind: "started", child: this.spawn(argv, request, events) };
      return { kind: "failed", errno: error.code };
    }
  }

  private spawn(argv: readonly Uint8Array[], request: LaunchRequest, events: ChildEvents): Child {
    const { loop } = this;
    const text = (bytes: Uint8Array) => decodeUtf8(bytes) ?? Buffer.from(bytes).toString("utf8");
    const child = Bun.spawn(argv.map(text), {
      stdio: [stdinOf(request), "pipe", "pipe"],
      ...(request.cwd === null ? {} : { cwd: text(request.cwd) }),
      ...(request.environment === null ? {} : { env: changedEnvironment(request.environment) }),
    });
    const readers = new Map<OutputStream, ReadableStreamDefaultReader<Uint8Array>>();
    for (const stream of ["stdout", "stderr"] as const) {
      const reader = child[stream].getReader() as unknown as ReadableStreamDefaultReader<Uint8Array>;
      readers.set(stream, reader);
      void pump(reader, stream, loop, events, () => readers.has(stream));
    }
    void child.exited.then(() => {
      const usage = child.resourceUsage();
      const signal = child.signalCode;
      loop.post(() =>
        events.exit({
          exit:
            signal === null
              ? { kind: "code", code: child.exitCode ?? 0, signal: null }
              : { kind: "signal", code: null, signal: typeof signal === "number" ? `SIG${signal}` : signal },
          userMs: Number(usage?.cpuTime.user ?? 0) / 1000,
          systemMs: Number(usage?.cpuTime.system ?? 0) / 1000,
          maxRssBytes: usage?.maxRSS ?? null,
        }),
      );
    });
    return {
      pid: child.pid,
      resize: () => {},
      // The runtime reads ahead: what has arrived is delivered by the next turns.
      drain: () => {},
      // It reads ahead of us all the same: what has arrived waits in memory.
      pause: () => {},
      resume: () => {},
      release(stream) {
        const reader = readers.get(stream);
        readers.delete(stream);
        void reader?.cancel();
      },
      holders: () => [],
      handOff: () => false,
    };
  }
}

async function pump(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  stream: OutputStream,
  loop: PortableLoop,
  events: ChildEvents,
  isWanted: () => boolean,
): Promise<void> {
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done || !isWanted()) break;
      await new Promise<void>((resolve) =>
        loop.post(() => {
          events.chunk(stream, value);
          resolve();
        }),
      );
    }
    if (isWanted()) loop.post(() => events.end(stream, null));
  } catch (error) {
    if (isWanted()) loop.post(() => events.end(stream, isErrno(error) ? error.code : "EIO"));
  }
}

/** Stdin that would have to be forwarded is inherited: who else reads it is not known here. */
function stdinOf({ stdin }: LaunchRequest): "inherit" | "ignore" | ReturnType<typeof Bun.file> {
  if (stdin.kind === "null") return "ignore";
  return stdin.kind === "file" ? Bun.file(Buffer.from(stdin.path).toString("utf8")) : "inherit";
}

function changedEnvironment(change: NonNullable<LaunchRequest["environment"]>): Record<string, string> {
  const environment: Record<string, string> = {};
  for (const [name, value] of Object.entries(process.env)) {
    if (value !== undefined && !change.unset.has(name)) environment[name] = value;
  }
  for (const [name, value] of change.set) environment[name] = Buffer.from(value).toString("utf8");
  return environment;
}
