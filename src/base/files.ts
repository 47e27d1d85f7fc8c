/**
 * The file operations of the hot path: synchronous, on paths as bytes, through the C library where FFI works and
 * through `node:fs` elsewhere. What may well not be there is answered with null; every other failure is thrown with its
 * errno's name as `code`.
 */
import {
  cString,
  lastErrno,
  libc,
  memory,
  O_CLOEXEC,
  O_CREAT,
  O_DIRECTORY,
  O_EXCL,
  O_NOFOLLOW,
  O_NONBLOCK,
  O_RDONLY,
  O_WRONLY,
} from "./libc.ts";

type NodeFs = typeof import("node:fs");

/** Loaded only where there is no FFI: its import alone costs 1.2 ms. */
function nodeFs(): NodeFs {
  return require("node:fs");
}

const ARM = process.arch === "arm64";
const AT_FDCWD = -100;
const AT_SYMLINK_NOFOLLOW = 0x100;
const AT_EMPTY_PATH = 0x1000;
const STATX_BASIC_STATS = 0x7ff;
const FALLOC_FL_KEEP_SIZE = 1;
const SYS_GETDENTS64 = ARM ? 61 : 217;

function systemError(code: string, operation: string): Error {
  return Object.assign(new Error(`${operation}: ${code}`), { code });
}

function failed(operation: string): never {
  throw systemError(libc === null ? "EIO" : lastErrno(libc), operation);
}

/** Creates a file that must not exist yet, open for writing. Never through a symlink. */
export function createFile(path: Uint8Array | string, mode: number): number {
  if (libc === null) {
    const { constants: c, openSync } = nodeFs();
    return openSync(Buffer.from(path), c.O_WRONLY | c.O_CREAT | c.O_EXCL | (c.O_NOFOLLOW ?? 0), mode);
  }
  const fd = libc.open(cString(path), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  return fd < 0 ? failed("create") : fd;
}

export function closeFile(fd: number): void {
  if (libc === null) nodeFs().closeSync(fd);
  else libc.close(fd);
}

/** One read of at most `buffer.length` bytes; 0 at the end. Throws, EAGAIN and EINTR included. */
export function readOnce(fd: number, buffer: Uint8Array): number {
  if (libc === null) return nodeFs().readSync(fd, buffer, 0, buffer.length, null);
  const count = libc.read(fd, buffer, buffer.length);
  return count < 0 ? failed("read") : count;
}

/** One write; the number of bytes taken. Throws, EAGAIN and EPIPE included. */
export function writeOnce(fd: number, bytes: Uint8Array): number {
  if (libc === null) return nodeFs().writeSync(fd, bytes, 0, bytes.length);
  for (;;) {
    const count = libc.write(fd, bytes, bytes.length);
    if (count >= 0) return count;
    const code = lastErrno(libc);
    if (code !== "EINTR") throw systemError(code, "write");
  }
}

/** Writes all of it or throws; what was written before the failure stays. */
export function writeWhole(fd: number, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length; ) at += writeOnce(fd, at === 0 ? bytes : bytes.subarray(at));
}

/** A small file of /proc as text, by one read: its one record comes whole. Null when it cannot be read. */
export function readProcText(path: string): string | null {
  if (libc === null) return readWhole(path)?.toString("latin1") ?? null;
  const fd = libc.open(cString(path), O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) return null;
  const count = libc.read(fd, SCRATCH, SCRATCH.length);
  libc.close(fd);
  return count < 0 ? null : SCRATCH_TEXT.toString("latin1", 0, count);
}

/** How many entries of /proc are processes; null when it cannot be listed. */
export function countProcesses(): number | null {
  if (libc === null) return listDirectory("/proc")?.filter((name) => name[0]! >= "1" && name[0]! <= "9").length ?? null;
  const fd = libc.open(cString("/proc"), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (fd < 0) return null;
  let processes = 0;
  for (;;) {
    const count = libc.syscall(SYS_GETDENTS64, fd, SCRATCH, SCRATCH.length, 0);
    if (count <= 0) {
      libc.close(fd);
      return count < 0 ? null : processes;
    }
    for (let at = 0; at < count; at += SCRATCH[at + 16]! | (SCRATCH[at + 17]! << 8)) {
      const first = SCRATCH[at + 19]!;
      if (first >= 0x31 && first <= 0x39) processes += 1;
    }
  }
}

/**
 * The content of a file that is no symlink, or null when it cannot be read. For small
 * files and /proc: everything is held in memory.
 */
export function readWhole(path: Uint8Array | string): Buffer | null {
  return readUpTo(path, Number.POSITIVE_INFINITY);
}

/** The first `bytes` of a file, or fewer where it is shorter; null when it cannot be read. */
export function readHead(path: Uint8Array | string, bytes: number): Buffer | null {
  return readUpTo(path, bytes);
}

function readUpTo(path: Uint8Array | string, limit: number): Buffer | null {
  if (libc === null) {
    try {
      const whole = nodeFs().readFileSync(Buffer.from(path));
      return limit < whole.length ? whole.subarray(0, limit) : whole;
    } catch {
      return null;
    }
  }
  // A FIFO in the place of a file must not make us wait for a writer.
  const fd = libc.open(cString(path), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
  if (fd < 0) return null;
  const parts: Buffer[] = [];
  let count = 0;
  for (let total = 0; total < limit; total += count) {
    count = libc.read(fd, SCRATCH, Math.min(SCRATCH.length, limit - total));
    if (count <= 0) break;
    parts.push(Buffer.from(SCRATCH.subarray(0, count)));
  }
  libc.close(fd);
  return count < 0 ? null : parts.length === 1 ? parts[0]! : Buffer.concat(parts);
}

const SCRATCH = new Uint8Array(new ArrayBuffer(32 * 1024));
const SCRATCH_TEXT = Buffer.from(SCRATCH.buffer);

/** Makes one directory. Throws EEXIST when there is something already. */
export function makeDirectory(path: Uint8Array | string, mode: number): void {
  if (libc === null) nodeFs().mkdirSync(Buffer.from(path), { mode });
  else if (libc.mkdir(cString(path), mode) !== 0) failed("mkdir");
}

/** Makes a directory and those above it that are missing. Throws what the system says of the first that cannot be. */
export function makeDirectories(path: Uint8Array, mode: number): void {
  const code = tryMakeDirectory(path, mode);
  if (code === null || code === "EEXIST") return;
  const slash = path.lastIndexOf(0x2f);
  if (code !== "ENOENT" || slash <= 0) throw systemError(code, "mkdir");
  makeDirectories(path.subarray(0, slash), mode);
  const again = tryMakeDirectory(path, mode);
  if (again !== null && again !== "EEXIST") throw systemError(again, "mkdir");
}

/** null, or why not. */
function tryMakeDirectory(path: Uint8Array, mode: number): string | null {
  try {
    makeDirectory(path, mode);
    return null;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? "EIO";
  }
}

export function renameFile(from: Uint8Array | string, to: Uint8Array | string): void {
  if (libc === null) nodeFs().renameSync(Buffer.from(from), Buffer.from(to));
  else if (libc.rename(cString(from), cString(to)) !== 0) failed("rename");
}

export function makeSymlink(target: string, path: Uint8Array | string): void {
  if (libc === null) nodeFs().symlinkSync(target, Buffer.from(path));
  else if (libc.symlink(cString(Buffer.from(target)), cString(path)) !== 0) failed("symlink");
}

/** Removes a file; that there is none is no failure, and neither is anything else: for leftovers only. */
export function removeLeftover(path: Uint8Array | string): void {
  if (libc !== null) {
    libc.unlink(cString(path));
    return;
  }
  try {
    nodeFs().unlinkSync(Buffer.from(path));
  } catch {
    // Gone, or it went with the file system.
  }
}

/** What a symlink points to, or null when the path is none. */
export function readSymlink(path: Uint8Array | string): Buffer | null {
  if (libc === null) {
    try {
      return nodeFs().readlinkSync(Buffer.from(path), { encoding: "buffer" });
    } catch {
      return null;
    }
  }
  const count = libc.readlink(cString(path), SCRATCH, SCRATCH.length);
  return count < 0 ? null : Buffer.from(SCRATCH.subarray(0, count));
}

/** Reserves room behind the end of an open file. Throws ENOSPC and EDQUOT; a file system that cannot reserve is content. */
export function reserveSpace(fd: number, bytes: number): void {
  if (libc === null || libc.fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, bytes) === 0) return;
  const code = lastErrno(libc);
  if (code === "ENOSPC" || code === "EDQUOT") throw systemError(code, "fallocate");
}

/** Puts an open file on the disk. A file system that cannot (EINVAL) is no failure. Throws EIO and ENOSPC. */
export function syncFile(fd: number): void {
  if (libc === null) {
    nodeFs().fsyncSync(fd);
    return;
  }
  if (libc.fsync(fd) === 0) return;
  const code = lastErrno(libc);
  if (code === "EIO" || code === "ENOSPC" || code === "EDQUOT") throw systemError(code, "fsync");
}

/** Puts the entries of a directory on the disk. */
export function syncDirectory(path: Uint8Array): void {
  if (libc === null) return;
  const fd = libc.open(cString(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (fd < 0) return;
  try {
    syncFile(fd);
  } finally {
    libc.close(fd);
  }
}

/** Bytes that an ordinary user may still write to the file system of an open file; null when it does not say. */
export function freeBytes(fd: number): number | null {
  if (libc === null) return null;
  const state = new BigInt64Array(new ArrayBuffer(128));
  if (libc.fstatfs(fd, state) !== 0) return null;
  // struct statfs: type, block size, blocks, free blocks, available blocks.
  return Number(state[1]!) * Number(state[4]!);
}

/** Gives back what is reserved behind the end of an open file. */
export function cutToSize(fd: number): void {
  const size = libc === null ? null : (descriptorState(fd)?.size ?? null);
  if (libc !== null && size !== null) libc.ftruncate(fd, size);
}

/** Removes a directory of ours that is empty; for leftovers only. */
export function removeEmptyDirectory(path: Uint8Array | string): void {
  if (libc !== null) libc.rmdir(cString(path));
}

/** The absolute path without symlinks and dots; null when there is nothing. */
export function physicalPath(path: Uint8Array): Buffer | null {
  if (libc === null) {
    try {
      return nodeFs().realpathSync.native(Buffer.from(path), { encoding: "buffer" });
    } catch {
      return null;
    }
  }
  if (libc.realpath(cString(path), SCRATCH) === null) return null;
  return Buffer.from(SCRATCH.subarray(0, SCRATCH.indexOf(0)));
}

export function makeReadOnly(fd: number): void {
  if (libc === null) nodeFs().fchmodSync(fd, 0o400);
  else if (libc.fchmod(fd, 0o400) !== 0) failed("fchmod");
}

export function pathExists(path: Uint8Array | string): boolean {
  return libc === null ? nodeFs().existsSync(Buffer.from(path)) : libc.access(cString(path), 0) === 0;
}

/** Names in a directory without `.` and `..`, or null when it cannot be listed. */
export function listDirectory(path: Uint8Array | string): string[] | null {
  if (libc === null) {
    try {
      return nodeFs().readdirSync(Buffer.from(path));
    } catch {
      return null;
    }
  }
  const fd = libc.open(cString(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (fd < 0) return null;
  const names: string[] = [];
  for (;;) {
    const count = libc.syscall(SYS_GETDENTS64, fd, SCRATCH, SCRATCH.length, 0);
    if (count <= 0) {
      libc.close(fd);
      return count < 0 ? null : names;
    }
    // struct linux_dirent64: inode 8, offset 8, record length 2, type 1, name with NUL.
    for (let at = 0; at < count; at += SCRATCH_TEXT.readUInt16LE(at + 16)) {
      const name = SCRATCH_TEXT.toString("utf8", at + 19, SCRATCH_TEXT.indexOf(0, at + 19));
      if (name !== "." && name !== "..") names.push(name);
    }
  }
}

export interface FileState {
  kind: "file" | "directory" | "symlink" | "fifo" | "socket" | "character" | "other";
  /** Permission bits. */
  mode: number;
  uid: number;
  size: number;
  /** Of a device: its numbers. */
  major: number;
  minor: number;
  /** What tells one file from all others, by whatever path it is reached. */
  identity: string;
}

/** The state of what `path` names, symlinks followed; null when there is nothing. */
export function fileState(path: Uint8Array | string): FileState | null {
  return stateOf(AT_FDCWD, path, 0);
}

/** The state of `path` itself; null when there is nothing. */
export function linkState(path: Uint8Array | string): FileState | null {
  return stateOf(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW);
}

/** The state of an open descriptor; null when it is not open. */
export function descriptorState(fd: number): FileState | null {
  return stateOf(fd, new Uint8Array(0), AT_EMPTY_PATH);
}

function stateOf(fd: number, path: Uint8Array | string, flags: number): FileState | null {
  if (libc === null) return nodeStateOf(fd, path, flags);
  if (libc.statx(fd, cString(path), flags, STATX_BASIC_STATS, STATX) !== 0) return null;
  const mode = STATX_16[14]!;
  return {
    kind: KINDS[mode >> 12] ?? "other",
    mode: mode & 0o7777,
    uid: STATX_32[5]!,
    size: STATX_32[10]! + STATX_32[11]! * 2 ** 32,
    major: STATX_32[32]!,
    minor: STATX_32[33]!,
    identity: `${STATX_32[34]}:${STATX_32[35]}:${STATX_32[8]}:${STATX_32[9]}`,
  };
}

/** struct statx has one layout on every architecture. */
const STATX = memory(256);
const STATX_16 = new Uint16Array(STATX.buffer);
const STATX_32 = new Uint32Array(STATX.buffer);
const KINDS: Record<number, FileState["kind"]> = {
  1: "fifo",
  2: "character",
  4: "directory",
  8: "file",
  10: "symlink",
  12: "socket",
};

function nodeStateOf(fd: number, path: Uint8Array | string, flags: number): FileState | null {
  const fs = nodeFs();
  try {
    const stat =
      flags === AT_EMPTY_PATH
        ? fs.fstatSync(fd)
        : flags === AT_SYMLINK_NOFOLLOW
          ? fs.lstatSync(Buffer.from(path))
          : fs.statSync(Buffer.from(path));
    const kind = KINDS[(stat.mode & 0o170000) >> 12] ?? "other";
    const { size, uid, rdev, dev, ino } = stat;
    const [major, minor] = process.platform === "darwin" ? [rdev >>> 24, rdev & 0xffffff] : [rdev >> 8, rdev & 0xff];
    return { kind, mode: stat.mode & 0o7777, uid, size, major, minor, identity: `${dev}:${ino}` };
  } catch {
    return null;
  }
}

export function ownUserId(): number {
  return libc === null ? (process.getuid?.() ?? 0) : libc.getuid();
}
