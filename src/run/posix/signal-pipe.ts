/**
 * Signals to the broker, with who sent them: only siginfo tells the terminal's Ctrl-C, which has reached the child as
 * well, from a signal to us alone, which has to be forwarded. The runtime's own handlers drop it. Ours is one write(2)
 * of the siginfo into a pipe, as machine code, because nothing of the runtime may run in a signal handler.
 */
import { readOnce } from "../../base/files.ts";
import { integers, type Libc, memory, O_CLOEXEC, O_NONBLOCK } from "../../base/libc.ts";
import { signalName } from "../../base/signals.ts";
import type { ReceivedSignal } from "../launcher.ts";
import type { PollLoop } from "./poll-loop.ts";

const SA_SIGINFO = 4;
const SA_RESTART = 0x10000000;
const SIG_IGN = 1;
const SIGHUP = 1;
const SIGCHLD = 17;
/** sizeof(siginfo_t). Below PIPE_BUF, so that each write is whole. */
const SIGINFO_BYTES = 128;
/** si_code of a signal that the kernel itself sent: the terminal's. */
const SI_KERNEL = 0x80;
/** struct sigaction: handler 8, mask 128, flags 4, restorer 8. */
const SIGACTION_BYTES = 152;
const PAGE_BYTES = 4096;

/**
 * Reports each of `numbers` that the caller does not ignore, and SIGCHLD. What the caller ignores stays ignored, for us
 * and for the child. Returns what reports signals that have come since the last wait; null when the platform refuses.
 */
export function watchSignals(
  libc: Libc,
  loop: PollLoop,
  numbers: readonly number[],
  onSignal: (signal: ReceivedSignal) => void,
  onChild: () => void,
): (() => void) | null {
  const ends = integers(2);
  if (libc.pipe2(ends, O_NONBLOCK | O_CLOEXEC) !== 0) return null;
  const [reader, writer] = [ends[0]!, ends[1]!];
  const handler = installCode(libc, writer);
  if (handler === null) return null;
  const words = integers(SIGACTION_BYTES / 4);
  words[0] = handler % 2 ** 32;
  words[1] = Math.floor(handler / 2 ** 32);
  words[34] = SA_SIGINFO | SA_RESTART;
  const before = integers(SIGACTION_BYTES / 4);
  for (const number of numbers) {
    libc.sigaction(number, null, before);
    if (before[0] !== SIG_IGN || before[1] !== 0) libc.sigaction(number, words, null);
  }
  // A caller that ignores SIGCHLD would make the kernel discard the child's exit status.
  libc.sigaction(SIGCHLD, words, null);
  const records = memory(SIGINFO_BYTES * 32);
  const fields = new Int32Array(records.buffer);
  // The kernel sends the hangup of a terminal to the session's leader alone: then the child has not got it.
  const isLeader = libc.getsid(0) === libc.getpid();
  const read = () => {
    const count = readOnce(reader, records);
    let children = false;
    for (let at = 0; at + SIGINFO_BYTES <= count; at += SIGINFO_BYTES) {
      // siginfo_t begins with three ints: number, errno, code.
      const number = fields[at >> 2]!;
      if (number === SIGCHLD) {
        children = true;
        continue;
      }
      const fromTerminal = fields[(at >> 2) + 2] === SI_KERNEL && !(isLeader && number === SIGHUP);
      onSignal({ name: signalName(number), number, fromTerminal });
    }
    if (children) onChild();
  };
  loop.watch(reader, read);
  return () => {
    if (loop.isReadable(reader)) read();
  };
}

/** `write(fd, siginfo, 128)`, then return, in a page of its own. The address; null where pages cannot be executable. */
function installCode(libc: Libc, fd: number): number | null {
  const page = libc.mmap(null, PAGE_BYTES, 0x1 | 0x2, 0x02 | 0x20, -1, 0);
  if (page === null || Number(page) === -1) return null;
  const code = process.arch === "arm64" ? arm64Code(fd) : x64Code(fd);
  libc.memcpy(page, code, code.length);
  return libc.mprotect(page, PAGE_BYTES, 0x1 | 0x4) === 0 ? Number(page) : null;
}

/** The second argument of the handler, siginfo, is in rsi already, where write(2) takes its buffer. */
function x64Code(fd: number): Uint8Array {
  const code = memory(18);
  code.set([0xbf, fd & 0xff, (fd >> 8) & 0xff, 0, 0]); // mov edi, fd
  code.set([0xba, SIGINFO_BYTES, 0, 0, 0], 5); // mov edx, 128
  code.set([0xb8, 1, 0, 0, 0], 10); // mov eax, 1 (write)
  code.set([0x0f, 0x05, 0xc3], 15); // syscall; ret
  return code;
}

/** The second argument, siginfo, is in x1 already. */
function arm64Code(fd: number): Uint8Array {
  const move = (register: number, value: number) => 0xd2800000 + (value << 5) + register;
  const code = new Uint32Array([
    move(0, fd),
    move(2, SIGINFO_BYTES),
    move(8, 64), // write
    0xd4000001, // svc #0
    0xd65f03c0, // ret
  ]);
  return new Uint8Array(code.buffer);
}
