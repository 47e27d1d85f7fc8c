/**
 * One synchronous poll(2) over the pipes, the child's pidfd and the runtime's own event descriptor. Nothing is read
 * ahead, so a descriptor can be handed on without losing a byte; and a stream that is always ready cannot starve a
 * timer or a signal: each descriptor gets one read a turn, then timers run, then the runtime's events.
 */
import { fileState, listDirectory, readSymlink } from "../../base/files.ts";
import { integers, type Libc } from "../../base/libc.ts";
import type { Loop, Timer } from "../launcher.ts";
import { Timers } from "../timers.ts";

const POLLIN = 1;
/** How long a wait may last when the runtime's event descriptor is unknown, so that its signals are still handled. */
const BLIND_WAIT_MS = 10;
const MAX_WAIT_MS = 2 ** 30;

interface Watch {
  fd: number;
  action: () => void;
}

export class PollLoop implements Loop {
  readonly #libc: Libc;
  readonly #timers = new Timers();
  readonly #wake: number | null;
  #watches: Watch[] = [];
  #pollfds = integers(16);

  constructor(libc: Libc, wake: number | null) {
    this.#libc = libc;
    this.#wake = wake;
  }

  after(ms: number, action: () => void): Timer {
    return this.#timers.after(ms, action);
  }

  /** Calls `action` in each turn in which `fd` has bytes to read, end of file or an error. */
  watch(fd: number, action: () => void): void {
    this.#watches.push({ fd, action });
  }

  unwatch(fd: number): void {
    this.#watches = this.#watches.filter((watch) => watch.fd !== fd);
  }

  isReadable(fd: number): boolean {
    this.#set(0, fd);
    return this.#libc.poll(this.#pollfds, 1, 0) === 1;
  }

  async turn(): Promise<void> {
    const watches = this.#watches;
    if (this.#pollfds.length < (watches.length + 1) * 2) this.#pollfds = integers((watches.length + 8) * 2);
    for (let i = 0; i < watches.length; i += 1) this.#set(i, watches[i]!.fd);
    if (this.#wake !== null) this.#set(watches.length, this.#wake);
    const count = watches.length + (this.#wake === null ? 0 : 1);
    const next = this.#timers.untilNext();
    const bound = this.#wake === null ? BLIND_WAIT_MS : MAX_WAIT_MS;
    // A negative answer is EINTR: a signal that the runtime has noted and that it handles in its own turn.
    const ready = this.#libc.poll(this.#pollfds, count, Math.min(next ?? bound, bound));
    if (ready > 0) {
      for (let i = 0; i < watches.length; i += 1) if (this.#isSet(i)) watches[i]!.action();
    }
    this.#timers.run();
    if (ready < 0 || this.#wake === null || this.#isSet(watches.length)) await runtimeTurn();
  }

  #set(index: number, fd: number): void {
    this.#pollfds[index * 2] = fd;
    this.#pollfds[index * 2 + 1] = POLLIN;
  }

  #isSet(index: number): boolean {
    return this.#pollfds[index * 2 + 1]! >>> 16 !== 0;
  }
}

/** Lets the runtime deliver its signals and timers. */
function runtimeTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

export interface OpenDescriptors {
  /** The runtime's event descriptor (epoll); null when it was not found. */
  wake: number | null;
  /** Descriptors from 3 up that the caller handed to us. */
  inherited: number[];
}

/** What is open in this process before we open anything: the runtime's own two descriptors, and the caller's. */
export function openDescriptors(): OpenDescriptors {
  // Since Linux 6.2 the size of the directory is the number of open descriptors: 0, 1, 2, epoll, eventfd.
  if (fileState(Buffer.from("/proc/self/fd"))?.size === 5 && descriptorTarget(3) === "anon_inode:[eventpoll]")
    return { wake: 3, inherited: [] };
  const found: OpenDescriptors = { wake: null, inherited: [] };
  for (const name of listDirectory(Buffer.from("/proc/self/fd")) ?? []) {
    const fd = Number(name);
    if (fd < 3) continue;
    const target = descriptorTarget(fd);
    if (target === "anon_inode:[eventpoll]") found.wake ??= fd;
    else if (target !== null && target !== "anon_inode:[eventfd]") found.inherited.push(fd);
  }
  return found;
}

/** What a descriptor of ours refers to; null when it is not open (as the one that listed the directory). */
function descriptorTarget(fd: number): string | null {
  return readSymlink(Buffer.from(`/proc/self/fd/${fd}`))?.toString("latin1") ?? null;
}
