/** One stream into its file: exact bytes as they arrive, hashed and counted on the way. A failing store never stops it. */
import { errorReason } from "../base/errors.ts";
import { writeOnce } from "../base/files.ts";
import { LineCounter } from "../base/line-count.ts";
import type { StreamRecord } from "../evidence/receipt.ts";

/** Kept in memory of a stored stream: more than a quickview may show. */
const HEAD_BYTES = 16 * 1024 + 1;
/** Kept of a stream that has no file, at each end. */
const UNSTORED_BYTES = 2 * 2 ** 20;

export class StreamCapture {
  /** Bytes stored in the file. */
  bytes = 0;
  /** Bytes that arrived and were not stored. */
  lostBytes = 0;
  /** The errno of the write that failed; everything after it is lost. */
  failure: string | null = null;
  ended: StreamRecord["ended"] | null = null;
  /** More arrived than the budget allows. */
  cut = false;
  private readonly fd: number | null;
  private readonly hash = new Bun.CryptoHasher("sha256");
  private readonly lines = new LineCounter();
  private readonly head: Buffer[] = [];
  private headBytes = 0;
  private tail: Buffer[] = [];
  private tailBytes = 0;

  /** Without a file nothing is stored, and both ends are kept in memory. */
  constructor(fd: number | null) {
    this.fd = fd;
  }

  /** Stores a chunk. Returns how many of its bytes are in the file. */
  write(chunk: Uint8Array): number {
    let stored = 0;
    if (this.fd !== null && this.failure === null) {
      try {
        while (stored < chunk.length) stored += writeOnce(this.fd, stored === 0 ? chunk : chunk.subarray(stored));
      } catch (error) {
        this.failure = errorReason(error);
      }
    }
    this.remember(chunk);
    this.lostBytes += chunk.length - stored;
    if (stored > 0) {
      const kept = stored === chunk.length ? chunk : chunk.subarray(0, stored);
      this.hash.update(kept);
      this.lines.add(kept);
      this.bytes += stored;
    }
    return stored;
  }

  private remember(chunk: Uint8Array): void {
    const room = (this.fd === null ? UNSTORED_BYTES : HEAD_BYTES) - this.headBytes;
    if (room > 0) {
      this.head.push(Buffer.from(chunk.subarray(0, room)));
      this.headBytes += Math.min(room, chunk.length);
    }
    if (this.fd !== null || chunk.length <= room) return;
    this.tail.push(Buffer.from(room > 0 ? chunk.subarray(room) : chunk));
    this.tailBytes += chunk.length - Math.max(0, room);
    while (this.tailBytes - this.tail[0]!.length >= UNSTORED_BYTES) this.tailBytes -= this.tail.shift()!.length;
  }

  /** Everything that arrived, when memory still has it; null otherwise. */
  whole(): Buffer | null {
    return this.headBytes === this.bytes + this.lostBytes ? Buffer.concat(this.head) : null;
  }

  /** Both ends of what arrived, as far as memory has them; the tail is empty when the head is everything. */
  ends(): { head: Buffer; tail: Buffer } {
    return { head: Buffer.concat(this.head), tail: Buffer.concat(this.tail) };
  }

  /** The final account. Once only: the hash ends with it. */
  record(): Omit<StreamRecord, "held_by" | "terminal"> {
    return {
      bytes: this.bytes,
      sha256: this.hash.digest("hex"),
      complete: this.lostBytes === 0 && !this.cut && this.ended !== "error",
      ended: this.ended ?? "error",
      lines: this.lines.lines,
    };
  }
}
