/** One stream into its file: exact bytes as they arrive, hashed and counted on the way. A failing store never stops it. */
import { errorReason } from "../base/errors.ts";
import { writeOnce } from "../base/files.ts";
import { LineCounter } from "../base/line-count.ts";
import type { StreamRecord } from "../evidence/receipt.ts";

/** Bytes of the beginning that are kept in memory: more than a quickview may show. */
const HEAD_BYTES = 16 * 1024 + 1;

export class StreamCapture {
  /** Bytes stored in the file. */
  bytes = 0;
  /** Bytes that arrived and could not be stored. */
  lostBytes = 0;
  /** The errno of the write that failed; everything after it is lost. */
  failure: string | null = null;
  ended: StreamRecord["ended"] | null = null;
  readonly #fd: number;
  readonly #hash = new Bun.CryptoHasher("sha256");
  readonly #lines = new LineCounter();
  #head: Buffer[] = [];
  #headBytes = 0;

  constructor(fd: number) {
    this.#fd = fd;
  }

  /** Stores a chunk. Returns how many of its bytes are in the file. */
  write(chunk: Uint8Array): number {
    let stored = 0;
    if (this.failure === null) {
      try {
        while (stored < chunk.length) stored += writeOnce(this.#fd, stored === 0 ? chunk : chunk.subarray(stored));
      } catch (error) {
        this.failure = errorReason(error);
      }
    }
    this.lostBytes += chunk.length - stored;
    if (stored > 0) this.#account(stored === chunk.length ? chunk : chunk.subarray(0, stored));
    return stored;
  }

  #account(stored: Uint8Array): void {
    this.#hash.update(stored);
    this.#lines.add(stored);
    this.bytes += stored.length;
    if (this.#headBytes < HEAD_BYTES) {
      const part = Buffer.from(stored.subarray(0, HEAD_BYTES - this.#headBytes));
      this.#head.push(part);
      this.#headBytes += part.length;
    }
  }

  /** The first bytes of the stream, the whole of it when it is small. */
  head(): Buffer {
    return Buffer.concat(this.#head);
  }

  get lines(): number {
    return this.#lines.lines;
  }

  /** The final account. Once only: the hash ends with it. */
  record(): StreamRecord {
    return {
      bytes: this.bytes,
      sha256: this.#hash.digest("hex"),
      complete: this.lostBytes === 0 && this.ended !== "error" && this.ended !== "budget",
      ended: this.ended ?? "error",
      lines: this.#lines.lines,
    };
  }
}
