/** A pseudo-terminal for `--pty`. Its master is ours; the child opens the other end as its controlling terminal. */
import { integers, type Libc, lastErrno, memory, O_CLOEXEC, O_NOCTTY, O_NONBLOCK, O_RDWR } from "../../base/libc.ts";

const TIOCGWINSZ = 0x5413;
const TIOCSWINSZ = 0x5414;
const DEFAULT_ROWS = 24;
const DEFAULT_COLUMNS = 80;
const PATH_BYTES = 64;

export interface Pty {
  master: number;
  /** NUL-terminated path of the child's end. */
  path: Uint8Array;
}

/** Throws the system's error when there is no pseudo-terminal to be had. */
export function openPty(libc: Libc): Pty {
  const master = libc.posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
  const path = memory(PATH_BYTES);
  if (
    master < 0 ||
    libc.grantpt(master) !== 0 ||
    libc.unlockpt(master) !== 0 ||
    libc.ptsname_r(master, path, PATH_BYTES) !== 0
  ) {
    const code = lastErrno(libc);
    if (master >= 0) libc.close(master);
    throw Object.assign(new Error("no pseudo-terminal"), { code });
  }
  resizePty(libc, master);
  return { master, path };
}

/** Gives the pseudo-terminal the size of the caller's terminal; 80 by 24 where the caller has none. */
export function resizePty(libc: Libc, master: number): void {
  // struct winsize: rows, columns, and two in pixels, 16 bits each.
  const size = integers(2);
  const known = [0, 1, 2].some((fd) => libc.ioctl(fd, TIOCGWINSZ, size) === 0);
  if (!known || size[0] === 0) size[0] = DEFAULT_ROWS | (DEFAULT_COLUMNS << 16);
  libc.ioctl(master, TIOCSWINSZ, size);
}
