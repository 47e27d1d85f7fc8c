/** Probes of single files of a tracked tree. Paths as text are byte strings, one character a byte (latin1). */
import { type BigIntStats, closeSync, constants, fstatSync, openSync } from "node:fs";
import type { TreeEntry } from "./tree-snapshot.ts";

export const NOT_REGULAR = "it is no regular file any more";

/** The result, or the name of the system's error. */
export function attempt<T>(operation: () => T): T | string {
  try {
    return operation();
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (typeof code === "string" && /^E[A-Z0-9]+$/.test(code)) return code;
    throw error;
  }
}

/** Opens a regular file, and nothing else; never waits for a FIFO. What `use` gives, or why it could not. */
export function readRegularFile<T>(path: Buffer, use: (fd: number, stat: BigIntStats) => T): T | string {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
  const fd = attempt(() => openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
  if (typeof fd === "string") return fd;
  try {
    return attempt(() => {
      const stat = fstatSync(fd, { bigint: true });
      return stat.isFile() ? use(fd, stat) : NOT_REGULAR;
    });
  } finally {
    attempt(() => closeSync(fd));
  }
}

export function isGone(code: string): boolean {
  return code === "ENOENT" || code === "ENOTDIR";
}

export function identityOf({ dev, ino }: BigIntStats): string {
  return `${dev}:${ino}`;
}

export function typeOf(stat: BigIntStats): TreeEntry["type"] {
  if (stat.isFile()) return "file";
  if (stat.isSymbolicLink()) return "symlink";
  if (stat.isFIFO()) return "fifo";
  return stat.isSocket() ? "socket" : "device";
}

export function detailsOf({ size, mtimeNs, mode }: BigIntStats): Pick<TreeEntry, "size" | "mtimeNs" | "mode"> {
  return { size: Number(size), mtimeNs, mode: Number(mode) & 0o7777 };
}

export function toText(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
}

export function toPath(text: string): Buffer {
  return Buffer.from(text, "latin1");
}
