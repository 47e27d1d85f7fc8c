/**
 * The C library through FFI, for Linux with glibc or musl. On the hot path it stands in for `node:fs`, whose import and
 * first calls cost 2 ms. Memory handed to C is a view on `new ArrayBuffer(n)` or passed anew at each call: small typed
 * arrays move when their buffer is touched (oven-sh/bun#32054).
 */
import { dlopen, ptr, read } from "bun:ffi";

const ARM = process.arch === "arm64";
// open(2) flags of Linux. x86-64 and arm64 differ in two of them.
export const O_RDONLY = 0;
export const O_WRONLY = 1;
export const O_RDWR = 2;
export const O_CREAT = 0o100;
export const O_EXCL = 0o200;
export const O_NOCTTY = 0o400;
export const O_NONBLOCK = 0o4000;
export const O_DIRECTORY = ARM ? 0o40000 : 0o200000;
export const O_NOFOLLOW = ARM ? 0o100000 : 0o400000;
export const O_CLOEXEC = 0o2000000;

const SYMBOLS = {
  __errno_location: { args: [], returns: "ptr" },
  dlsym: { args: ["ptr", "ptr"], returns: "ptr" },
  open: { args: ["ptr", "i32", "i32"], returns: "i32" },
  close: { args: ["i32"], returns: "i32" },
  read: { args: ["i32", "ptr", "u64"], returns: "i32" },
  write: { args: ["i32", "ptr", "u64"], returns: "i32" },
  mkdir: { args: ["ptr", "i32"], returns: "i32" },
  rename: { args: ["ptr", "ptr"], returns: "i32" },
  symlink: { args: ["ptr", "ptr"], returns: "i32" },
  unlink: { args: ["ptr"], returns: "i32" },
  realpath: { args: ["ptr", "ptr"], returns: "ptr" },
  readlink: { args: ["ptr", "ptr", "u64"], returns: "i32" },
  fallocate: { args: ["i32", "i32", "i64", "i64"], returns: "i32" },
  fstatfs: { args: ["i32", "ptr"], returns: "i32" },
  ftruncate: { args: ["i32", "i64"], returns: "i32" },
  rmdir: { args: ["ptr"], returns: "i32" },
  fsync: { args: ["i32"], returns: "i32" },
  fchmod: { args: ["i32", "i32"], returns: "i32" },
  access: { args: ["ptr", "i32"], returns: "i32" },
  statx: { args: ["i32", "ptr", "i32", "u32", "ptr"], returns: "i32" },
  getuid: { args: [], returns: "i32" },
  posix_openpt: { args: ["i32"], returns: "i32" },
  grantpt: { args: ["i32"], returns: "i32" },
  unlockpt: { args: ["i32"], returns: "i32" },
  ptsname_r: { args: ["i32", "ptr", "u64"], returns: "i32" },
  ioctl: { args: ["i32", "u64", "ptr"], returns: "i32" },
  pipe2: { args: ["ptr", "i32"], returns: "i32" },
  fcntl: { args: ["i32", "i32", "i32"], returns: "i32" },
  poll: { args: ["ptr", "u64", "i32"], returns: "i32" },
  posix_spawnp: { args: ["ptr", "ptr", "ptr", "ptr", "ptr", "ptr"], returns: "i32" },
  posix_spawn_file_actions_init: { args: ["ptr"], returns: "i32" },
  posix_spawn_file_actions_adddup2: { args: ["ptr", "i32", "i32"], returns: "i32" },
  posix_spawn_file_actions_addopen: { args: ["ptr", "i32", "ptr", "i32", "i32"], returns: "i32" },
  posix_spawn_file_actions_addclose: { args: ["ptr", "i32"], returns: "i32" },
  posix_spawn_file_actions_addchdir_np: { args: ["ptr", "ptr"], returns: "i32" },
  posix_spawnattr_init: { args: ["ptr"], returns: "i32" },
  posix_spawnattr_setflags: { args: ["ptr", "i16"], returns: "i32" },
  posix_spawnattr_setsigmask: { args: ["ptr", "ptr"], returns: "i32" },
  posix_spawnattr_setsigdefault: { args: ["ptr", "ptr"], returns: "i32" },
  clock_gettime: { args: ["i32", "ptr"], returns: "i32" },
  wait4: { args: ["i32", "ptr", "i32", "ptr"], returns: "i32" },
  sigaction: { args: ["i32", "ptr", "ptr"], returns: "i32" },
  kill: { args: ["i32", "i32"], returns: "i32" },
  mmap: { args: ["ptr", "u64", "i32", "i32", "i32", "i64"], returns: "ptr" },
  memcpy: { args: ["ptr", "ptr", "u64"], returns: "ptr" },
  mprotect: { args: ["ptr", "u64", "i32"], returns: "i32" },
  prctl: { args: ["i32", "u64", "u64", "u64", "u64"], returns: "i32" },
  prlimit: { args: ["i32", "i32", "ptr", "ptr"], returns: "i32" },
  getpid: { args: [], returns: "i32" },
  getsid: { args: ["i32"], returns: "i32" },
  getppid: { args: [], returns: "i32" },
  syscall: { args: ["i64", "i64", "ptr", "i64", "i64"], returns: "i32" },
} as const;

export type Libc = ReturnType<typeof dlopen<typeof SYMBOLS>>["symbols"];

/** The C library, or null where FFI or a function is not there: then `node:fs` and the portable launcher serve. */
export const libc: Libc | null = openLibc();

function openLibc(): Libc | null {
  if (process.platform !== "linux") return null;
  const musl = ARM ? "libc.musl-aarch64.so.1" : "libc.musl-x86_64.so.1";
  for (const soname of ["libc.so.6", musl]) {
    try {
      return dlopen(soname, SYMBOLS).symbols;
    } catch {
      // Not this C library, or no FFI at all.
    }
  }
  return null;
}

/** Zeroed memory that does not move. */
export function memory(bytes: number): Uint8Array {
  return new Uint8Array(new ArrayBuffer(bytes));
}

/** 32-bit integers in memory that does not move. */
export function integers(count: number): Int32Array {
  return new Int32Array(new ArrayBuffer(4 * count));
}

/** A NUL-terminated copy. */
export function cString(bytes: Uint8Array | string): Uint8Array {
  if (typeof bytes === "string") return Buffer.from(`${bytes}\0`);
  const copy = memory(bytes.length + 1);
  copy.set(bytes);
  return copy;
}

/** Byte strings packed NUL-terminated, with a NULL-terminated array of pointers to them. Keep `bytes` alive. */
export function cStringArray(strings: readonly Uint8Array[]): { pointers: BigUint64Array; bytes: Uint8Array } {
  let size = 1;
  for (const string of strings) size += string.length + 1;
  const bytes = memory(size);
  const base = ptr(bytes);
  const pointers = new BigUint64Array(new ArrayBuffer(8 * (strings.length + 1)));
  let at = 0;
  for (let i = 0; i < strings.length; i += 1) {
    bytes.set(strings[i]!, at);
    pointers[i] = BigInt(base + at);
    at += strings[i]!.length + 1;
  }
  return { pointers, bytes };
}

/** CLOCK_MONOTONIC in nanoseconds: comparable between processes, unlike the runtime's clock. */
export function monotonicClockNs(c: Libc): number {
  const time = new BigInt64Array(new ArrayBuffer(16));
  c.clock_gettime(CLOCK_MONOTONIC, time);
  return Number(time[0]! * 1_000_000_000n + time[1]!);
}

const CLOCK_MONOTONIC = 1;

/** The address of C's `environ`: the caller's environment byte for byte, duplicates and odd names included. */
export function environAddress(c: Libc): number {
  return read.ptr(c.dlsym(null, cString("environ")) as never, 0);
}

/** The entries of a NULL-terminated array of C strings. */
export function readCStrings(address: number): Buffer[] {
  const strings: Buffer[] = [];
  for (let i = 0; ; i += 1) {
    const string = read.ptr(address as never, i * 8);
    if (string === 0) return strings;
    let length = 0;
    while (read.u8(string as never, length) !== 0) length += 1;
    const copy = Buffer.alloc(length);
    for (let k = 0; k < length; k += 1) copy[k] = read.u8(string as never, k);
    strings.push(copy);
  }
}

/** Errno numbers of Linux on x86-64 and arm64 that we may meet. Others are `E` and the number. */
const ERRNO_NAMES: Record<number, string> = {
  1: "EPERM",
  2: "ENOENT",
  3: "ESRCH",
  4: "EINTR",
  5: "EIO",
  7: "E2BIG",
  8: "ENOEXEC",
  9: "EBADF",
  10: "ECHILD",
  11: "EAGAIN",
  12: "ENOMEM",
  13: "EACCES",
  17: "EEXIST",
  18: "EXDEV",
  20: "ENOTDIR",
  21: "EISDIR",
  22: "EINVAL",
  23: "ENFILE",
  24: "EMFILE",
  26: "ETXTBSY",
  27: "EFBIG",
  28: "ENOSPC",
  30: "EROFS",
  31: "EMLINK",
  32: "EPIPE",
  36: "ENAMETOOLONG",
  39: "ENOTEMPTY",
  40: "ELOOP",
  80: "ELIBBAD",
  95: "EOPNOTSUPP",
  122: "EDQUOT",
};

export function errnoName(number: number): string {
  return ERRNO_NAMES[number] ?? `E${number}`;
}

/** The errno of the last call that failed. */
export function lastErrno(c: Libc): string {
  return errnoName(read.i32(c.__errno_location() as never, 0));
}
