/**
 * Starts a child through posix_spawnp, so that it gets what exec from the caller would have given it: argv and
 * environment byte for byte, the caller's group, session, terminal, signal mask and dispositions, its other
 * descriptors and its limits; and real pipes in blocking mode as stdout and stderr.
 */

import { isClosedAtStart } from "../../base/descriptors.ts";
import { isErrno } from "../../base/errors.ts";
import { closeFile } from "../../base/files.ts";
import {
  cString,
  environAddress,
  integers,
  type Libc,
  lastErrno,
  libc,
  memory,
  O_CLOEXEC,
  O_NONBLOCK,
  O_RDONLY,
  O_RDWR,
  O_WRONLY,
  readCStrings,
} from "../../base/libc.ts";
import type { ChildEvents, Launcher, LaunchRequest, OutputStream, ReceivedSignal, Started } from "../launcher.ts";
import { type OpenDescriptors, openDescriptors } from "./open-descriptors.ts";
import { PollLoop } from "./poll-loop.ts";
import { PIPE_BYTES, PosixChild } from "./posix-child.ts";
import { PosixProcessControl } from "./process-control.ts";
import { openPty, type Pty } from "./pty.ts";
import { watchSignals } from "./signal-pipe.ts";
import { spawnProgram } from "./spawn.ts";
import { isOnlyReaderOfStdin } from "./stdin-owner.ts";
import { StdinRelay } from "./stdin-relay.ts";

const F_SETFD = 2;
const F_SETFL = 4;
const F_DUPFD_CLOEXEC = 1030;
const F_SETPIPE_SZ = 1031;
const FD_CLOEXEC = 1;
const PR_SET_CHILD_SUBREAPER = 36;
/** What a terminal takes as the end of its input (Ctrl-D). */
const END_OF_TRANSMISSION = 4;
const OUTPUTS = [
  ["stdout", 1],
  ["stderr", 2],
] as const;

/** The launcher of this platform; null where FFI is refused or the C library is unknown. */
export function openPosixLauncher(): Launcher | null {
  return libc === null ? null : new PosixLauncher(libc, openDescriptors());
}

interface Pipe {
  read: number;
  write: number;
}

class PosixLauncher implements Launcher {
  readonly name = "posix";
  readonly loop: PollLoop;
  readonly closed: readonly number[];
  readonly control: PosixProcessControl;
  private readonly libc: Libc;
  private readonly open: OpenDescriptors;
  /** Reports signals that have come since the last wait. */
  private readSignals: (() => void) | null = null;

  constructor(libc: Libc, open: OpenDescriptors) {
    this.libc = libc;
    this.open = open;
    this.loop = new PollLoop(libc, open.wake);
    this.control = new PosixProcessControl(libc);
    this.closed = [0, 1, 2].filter(isClosedAtStart);
    // The runtime leaves descriptor 3 as it came; ours must not carry it into anything but the child.
    for (const fd of open.inherited) libc.fcntl(fd, F_SETFD, FD_CLOEXEC);
    // Orphans of the run are reparented to us, so that the tree stays known.
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  }

  isOpenAtCaller(fd: number): boolean {
    return fd <= 2 ? !this.closed.includes(fd) : this.open.inherited.includes(fd);
  }

  readVariable(name: string): Uint8Array | null {
    const prefix = Buffer.from(`${name}=`);
    const entry = readCStrings(environAddress(this.libc)).find((each) =>
      each.subarray(0, prefix.length).equals(prefix),
    );
    return entry?.subarray(prefix.length) ?? null;
  }

  ownsStdin(): boolean {
    return !this.closed.includes(0) && isOnlyReaderOfStdin();
  }

  watchSignals(numbers: readonly number[], onSignal: (signal: ReceivedSignal) => void, onChild: () => void): void {
    this.readSignals = watchSignals(this.libc, this.loop, numbers, onSignal, onChild);
  }

  start(request: LaunchRequest, events: ChildEvents): Started {
    return request.pty ? this.startOnPty(request, events) : this.startOnPipes(request, events);
  }

  private startOnPty(request: LaunchRequest, events: ChildEvents): Started {
    const libc = this.libc;
    let pty: Pty;
    try {
      pty = openPty(libc);
    } catch (error) {
      if (isErrno(error)) return { kind: "failed", errno: error.code };
      throw error;
    }
    const actions = memory(512);
    libc.posix_spawn_file_actions_init(actions);
    // The leader of a new session gets the first terminal that it opens as its controlling one.
    libc.posix_spawn_file_actions_addopen(actions, 0, pty.path, O_RDWR, 0);
    libc.posix_spawn_file_actions_adddup2(actions, 0, 1);
    libc.posix_spawn_file_actions_adddup2(actions, 0, 2);
    this.inheritAndEnter(actions, request);
    const pid = spawnProgram(libc, request, actions);
    if (typeof pid === "string") {
      closeFile(pty.master);
      return { kind: "failed", errno: pid };
    }
    const relay = this.relayToPty(pty, request, events);
    const outputs = new Map<OutputStream, number>([["stdout", pty.master]]);
    const child = this.child(pid, outputs, relay, events);
    return { kind: "started", child };
  }

  /** What is typed: our stdin, whatever it is, until its end. */
  private relayToPty({ master }: Pty, { stdin }: LaunchRequest, events: ChildEvents): StdinRelay | null {
    const path = stdin.kind === "file" ? stdin.path : stdin.kind === "null" ? "/dev/null" : null;
    const source = path === null ? 0 : this.libc.open(cString(path), O_RDONLY | O_CLOEXEC, 0);
    if (source < 0 || (source === 0 && this.closed.includes(0))) return null;
    const sink = this.libc.fcntl(master, F_DUPFD_CLOEXEC, 3);
    const budgetBytes = stdin.kind === "capture" ? stdin.budgetBytes : null;
    return new StdinRelay(this.loop, source, sink, { budgetBytes, eof: new Uint8Array([END_OF_TRANSMISSION]) }, events);
  }

  private startOnPipes(request: LaunchRequest, events: ChildEvents): Started {
    const outputs = new Map<OutputStream, Pipe>();
    const pipes: Pipe[] = [];
    try {
      const stdin = request.stdin.kind === "capture" ? this.pipe(pipes) : null;
      for (const [stream, fd] of OUTPUTS) if (!this.closed.includes(fd)) outputs.set(stream, this.pipe(pipes));
      const pid = spawnProgram(this.libc, request, this.actions(request, stdin, outputs));
      if (typeof pid === "string") {
        closeAll(pipes);
        return { kind: "failed", errno: pid };
      }
      for (const pipe of outputs.values()) closeFile(pipe.write);
      const reads = new Map([...outputs].map(([stream, pipe]) => [stream, pipe.read]));
      const relay = stdin === null ? null : this.relay(stdin, request, events);
      return { kind: "started", child: this.child(pid, reads, relay, events) };
    } catch (error) {
      closeAll(pipes);
      if (isErrno(error)) return { kind: "failed", errno: error.code };
      throw error;
    }
  }

  private child(
    pid: number,
    outputs: ReadonlyMap<OutputStream, number>,
    relay: StdinRelay | null,
    events: ChildEvents,
  ): PosixChild {
    this.control.follow(pid);
    const beforeExit = () => this.readSignals?.();
    return new PosixChild({
      libc: this.libc,
      loop: this.loop,
      control: this.control,
      pid,
      outputs,
      relay,
      events,
      beforeExit,
    });
  }

  private pipe(made: Pipe[]): Pipe {
    const ends = integers(2);
    if (this.libc.pipe2(ends, O_CLOEXEC) !== 0) {
      throw Object.assign(new Error("no pipe could be made"), { code: lastErrno(this.libc) });
    }
    const pipe = { read: ends[0]!, write: ends[1]! };
    made.push(pipe);
    return pipe;
  }

  /** What happens to descriptors and directory between fork and exec. */
  private actions(request: LaunchRequest, stdin: Pipe | null, outputs: ReadonlyMap<OutputStream, Pipe>): Uint8Array {
    const libc = this.libc;
    const actions = memory(512);
    libc.posix_spawn_file_actions_init(actions);
    const { stdin: plan } = request;
    if (stdin !== null) libc.posix_spawn_file_actions_adddup2(actions, stdin.read, 0);
    else if (plan.kind === "null") {
      libc.posix_spawn_file_actions_addopen(actions, 0, cString("/dev/null"), O_RDONLY, 0);
    } else if (plan.kind === "file") {
      libc.posix_spawn_file_actions_addopen(actions, 0, cString(plan.path), O_RDONLY, 0);
    }
    for (const [stream, fd] of OUTPUTS) {
      const pipe = outputs.get(stream);
      if (pipe === undefined) continue;
      libc.posix_spawn_file_actions_adddup2(actions, pipe.write, fd);
      libc.fcntl(pipe.read, F_SETPIPE_SZ, PIPE_BYTES);
    }
    this.inheritAndEnter(actions, request);
    return actions;
  }

  /** The caller's other descriptors, and the directory to run in. */
  private inheritAndEnter(actions: Uint8Array, { withheld, cwd }: LaunchRequest): void {
    // A descriptor duplicated onto itself loses its close-on-exec mark in the child.
    for (const fd of this.open.inherited) {
      if (fd !== withheld) this.libc.posix_spawn_file_actions_adddup2(actions, fd, fd);
    }
    if (cwd !== null) this.libc.posix_spawn_file_actions_addchdir_np(actions, cString(cwd));
  }

  private relay(stdin: Pipe, request: LaunchRequest, events: ChildEvents): StdinRelay {
    closeFile(stdin.read);
    // The two ends of a pipe have flags of their own: the child's stays blocking.
    this.libc.fcntl(stdin.write, F_SETFL, O_WRONLY | O_NONBLOCK);
    const budgetBytes = request.stdin.kind === "capture" ? request.stdin.budgetBytes : null;
    return new StdinRelay(this.loop, 0, stdin.write, { budgetBytes, eof: null }, events);
  }
}

function closeAll(pipes: readonly Pipe[]): void {
  for (const { read, write } of pipes) {
    closeFile(read);
    closeFile(write);
  }
}
