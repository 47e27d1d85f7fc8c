/**
 * Starts a child through posix_spawnp, so that it gets what exec from the caller would have given it: argv and
 * environment byte for byte, the caller's group, session, terminal, signal mask and dispositions, its other
 * descriptors and its limits; and real pipes in blocking mode as stdout and stderr.
 */
import { AshError, errorReason, isErrno } from "../../base/errors.ts";
import { closeFile, readOnce } from "../../base/files.ts";
import {
  cString,
  cStringArray,
  environAddress,
  errnoName,
  integers,
  type Libc,
  libc,
  memory,
  readCStrings,
} from "../../base/libc.ts";
import { signalName } from "../../base/signals.ts";
import type {
  Child,
  ChildEvents,
  EnvironmentChange,
  ExitStatus,
  Launcher,
  LaunchRequest,
  OutputStream,
  Started,
} from "../launcher.ts";
import { interpretWithSh } from "../program-lookup.ts";
import { type OpenDescriptors, openDescriptors, PollLoop } from "./poll-loop.ts";

const O_CLOEXEC = 0o2000000;
const F_GETFD = 1;
const F_SETFD = 2;
const F_SETPIPE_SZ = 1031;
const FD_CLOEXEC = 1;
const SIGCHLD = 17;
const WNOHANG = 1;
const RLIMIT_NOFILE = 7;
const SPAWN_SETSIGDEF = 0x04;
const SYS_PIDFD_OPEN = 434;
const PR_SET_CHILD_SUBREAPER = 36;
/** Bytes of a pipe. The system's default unprivileged maximum; fewer, larger reads under a flood. */
const PIPE_BYTES = 1 << 20;
const READ_BYTES = 256 * 1024;
/** Without pidfd_open (Linux before 5.3, or a filter) the child's end is asked for at this interval. */
const REAP_MS = 5;
const BUSY_RETRY_MS = 250;

/** The launcher of this platform; null where FFI is refused or the C library is unknown. */
export function openPosixLauncher(): Launcher | null {
  return libc === null ? null : new PosixLauncher(libc, openDescriptors());
}

class PosixLauncher implements Launcher {
  readonly name = "posix";
  readonly loop: PollLoop;
  readonly closed: readonly number[];
  readonly #libc: Libc;
  readonly #open: OpenDescriptors;

  constructor(libc: Libc, open: OpenDescriptors) {
    this.#libc = libc;
    this.#open = open;
    this.loop = new PollLoop(libc, open.wake);
    this.closed = [0, 1, 2].filter((fd) => isClosedAtCaller(libc, fd));
    // The runtime leaves descriptor 3 as it came; ours must not carry it into anything but the child.
    for (const fd of open.inherited) libc.fcntl(fd, F_SETFD, FD_CLOEXEC);
    // A caller that ignores SIGCHLD would make the kernel discard the exit status.
    libc.signal(SIGCHLD, null);
    // Orphans of the run are reparented to us, so that the tree stays known.
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  }

  start(request: LaunchRequest, events: ChildEvents): Started {
    const pipes = new Map<OutputStream, { read: number; write: number }>();
    try {
      for (const [stream, fd] of OUTPUTS) if (!this.closed.includes(fd)) pipes.set(stream, this.#pipe());
    } catch (error) {
      for (const pipe of pipes.values()) for (const end of [pipe.read, pipe.write]) closeFile(end);
      throw error;
    }
    const pid = this.#spawn(request, pipes);
    for (const pipe of pipes.values()) closeFile(pipe.write);
    if (typeof pid === "string") {
      for (const pipe of pipes.values()) closeFile(pipe.read);
      return { kind: "failed", errno: pid };
    }
    return { kind: "started", child: new PosixChild(this.#libc, this.loop, pid, pipes, events) };
  }

  #pipe(): { read: number; write: number } {
    const ends = integers(2);
    if (this.#libc.pipe2(ends, O_CLOEXEC) !== 0)
      throw new AshError("cannot_capture", "no pipe could be made: too many open files");
    this.#libc.fcntl(ends[0]!, F_SETPIPE_SZ, PIPE_BYTES);
    return { read: ends[0]!, write: ends[1]! };
  }

  /** The child's pid, or the errno's name. */
  #spawn(request: LaunchRequest, pipes: Map<OutputStream, { write: number }>): number | string {
    const libc = this.#libc;
    const actions = memory(512);
    libc.posix_spawn_file_actions_init(actions);
    for (const [stream, fd] of OUTPUTS) {
      const pipe = pipes.get(stream);
      if (pipe !== undefined) libc.posix_spawn_file_actions_adddup2(actions, pipe.write, fd);
    }
    // A descriptor duplicated onto itself loses its close-on-exec mark in the child.
    for (const fd of this.#open.inherited) libc.posix_spawn_file_actions_adddup2(actions, fd, fd);
    if (request.cwd !== null) libc.posix_spawn_file_actions_addchdir_np(actions, cString(request.cwd));
    const attributes = memory(512);
    libc.posix_spawnattr_init(attributes);
    libc.posix_spawnattr_setflags(attributes, SPAWN_SETSIGDEF);
    libc.posix_spawnattr_setsigdefault(attributes, runtimeIgnoredSignals());
    const environ = environAddress(libc);
    const changed =
      request.environment === null ? null : cStringArray(applyChange(readCStrings(environ), request.environment));
    const pid = integers(1);
    const spawn = (argv: readonly Uint8Array[]): number => {
      const words = cStringArray(argv);
      return libc.posix_spawnp(
        pid,
        words.bytes,
        actions,
        attributes,
        words.pointers,
        (changed?.pointers ?? environ) as never,
      );
    };
    const restoreLimit = this.#useCallersDescriptorLimit();
    let error = spawn(request.argv);
    for (let waited = 0; errnoName(error) === "ETXTBSY" && waited < BUSY_RETRY_MS; waited += 10) {
      Bun.sleepSync(10);
      error = spawn(request.argv);
    }
    // execvp runs a file with no `#!` line through /bin/sh; posix_spawnp does not.
    if (errnoName(error) === "ENOEXEC") {
      const argv = interpretWithSh(request);
      if (argv !== null) error = spawn(argv);
    }
    restoreLimit();
    return error === 0 ? pid[0]! : errnoName(error);
  }

  /**
   * The runtime raises the soft limit of open descriptors to the hard one before our code. The caller's is taken from
   * our parent, when the hard limits agree.
   */
  #useCallersDescriptorLimit(): () => void {
    const libc = this.#libc;
    const own = new BigUint64Array(new ArrayBuffer(16));
    const parent = new BigUint64Array(new ArrayBuffer(16));
    libc.prlimit(0, RLIMIT_NOFILE, null, own);
    const known = libc.prlimit(libc.getppid(), RLIMIT_NOFILE, null, parent) === 0;
    if (!known || parent[1] !== own[1] || parent[0]! >= own[0]!) return () => {};
    libc.prlimit(0, RLIMIT_NOFILE, parent, null);
    return () => libc.prlimit(0, RLIMIT_NOFILE, own, null);
  }
}

const OUTPUTS = [
  ["stdout", 1],
  ["stderr", 2],
] as const;

/**
 * The runtime opens /dev/null on 0, 1 and 2 where the caller had them closed, and marks those close-on-exec; a
 * descriptor that came through exec cannot carry that mark.
 */
function isClosedAtCaller(libc: Libc, fd: number): boolean {
  const flags = libc.fcntl(fd, F_GETFD, 0);
  return flags < 0 || (flags & FD_CLOEXEC) !== 0;
}

/** SIGPIPE and SIGXFSZ: our runtime ignores them for itself, which hides what the caller had. A sigset_t. */
function runtimeIgnoredSignals(): Uint8Array {
  const set = memory(128);
  for (const number of [13, 25]) set[(number - 1) >> 3]! |= 1 << ((number - 1) & 7);
  return set;
}

function applyChange(entries: Buffer[], change: EnvironmentChange): Uint8Array[] {
  const nameOf = (entry: Buffer) => {
    const equals = entry.indexOf(0x3d);
    return equals < 0 ? null : entry.toString("utf8", 0, equals);
  };
  const kept: Uint8Array[] = entries.filter((entry) => {
    const name = nameOf(entry);
    return name === null || !(change.set.has(name) || change.unset.has(name));
  });
  for (const [name, value] of change.set) kept.push(Buffer.concat([Buffer.from(`${name}=`), value]));
  return kept;
}

class PosixChild implements Child {
  readonly pid: number;
  readonly #libc: Libc;
  readonly #loop: PollLoop;
  readonly #events: ChildEvents;
  readonly #open = new Map<OutputStream, number>();
  readonly #buffer = Buffer.allocUnsafeSlow(READ_BYTES);

  constructor(
    libc: Libc,
    loop: PollLoop,
    pid: number,
    pipes: Map<OutputStream, { read: number }>,
    events: ChildEvents,
  ) {
    this.pid = pid;
    this.#libc = libc;
    this.#loop = loop;
    this.#events = events;
    for (const [stream, pipe] of pipes) {
      this.#open.set(stream, pipe.read);
      loop.watch(pipe.read, () => this.#read(stream, pipe.read));
    }
    this.#watchExit();
  }

  drain(stream: OutputStream): void {
    for (let left = PIPE_BYTES; left > 0; ) {
      const fd = this.#open.get(stream);
      if (fd === undefined || !this.#loop.isReadable(fd)) return;
      left -= this.#read(stream, fd);
    }
    // Behind exactly one pipe of bytes the end of file may stand.
    const fd = this.#open.get(stream);
    if (fd !== undefined && this.#loop.isReadable(fd)) this.#read(stream, fd);
  }

  release(stream: OutputStream): void {
    const fd = this.#open.get(stream);
    if (fd === undefined) return;
    this.#open.delete(stream);
    this.#loop.unwatch(fd);
    closeFile(fd);
  }

  /** One read of a readable pipe; the number of bytes. */
  #read(stream: OutputStream, fd: number): number {
    let count = 0;
    let error: string | null = null;
    try {
      count = readOnce(fd, this.#buffer);
    } catch (failure) {
      if (isErrno(failure, "EINTR") || isErrno(failure, "EAGAIN")) return 0;
      error = errorReason(failure);
    }
    if (count > 0) {
      this.#events.chunk(stream, this.#buffer.subarray(0, count));
      return count;
    }
    this.release(stream);
    this.#events.end(stream, error);
    return 0;
  }

  #watchExit(): void {
    const pidfd = this.#libc.syscall(SYS_PIDFD_OPEN, this.pid, null, 0);
    if (pidfd < 0) {
      const ask = () => {
        if (!this.#reap()) this.#loop.after(REAP_MS, ask);
      };
      ask();
      return;
    }
    this.#loop.watch(pidfd, () => {
      if (!this.#reap()) return;
      this.#loop.unwatch(pidfd);
      closeFile(pidfd);
    });
  }

  #reap(): boolean {
    const status = integers(1);
    const usage = new BigInt64Array(new ArrayBuffer(144));
    if (this.#libc.wait4(this.pid, status, WNOHANG, usage) !== this.pid) return false;
    this.#events.exit(decodeStatus(status[0]!, usage));
    return true;
  }
}

/** A wait4 status and its rusage: times as seconds and microseconds, ru_maxrss in KiB. */
function decodeStatus(status: number, usage: BigInt64Array): ExitStatus {
  const signal = status & 0x7f;
  const ms = (seconds: bigint, micro: bigint) => Number(seconds) * 1000 + Number(micro) / 1000;
  return {
    exit:
      signal === 0
        ? { kind: "code", code: (status >> 8) & 0xff, signal: null }
        : { kind: "signal", code: null, signal: signalName(signal) },
    userMs: ms(usage[0]!, usage[1]!),
    systemMs: ms(usage[2]!, usage[3]!),
    maxRssBytes: Number(usage[4]!) * 1024,
  };
}
