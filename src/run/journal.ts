/**
 * The append-only account of a run, one JSON object a line. It may lag behind the stream files by FLUSH_MS, and never
 * leads: an event is written after the bytes it tells of.
 *
 * The chunk events of a chatty run stay below the size of its output plus CHUNK_ALLOWANCE_BYTES: near that bound reads
 * of one stream are merged across turns. Nothing is dropped.
 */
import { errorReason } from "../base/errors.ts";
import { writeWhole } from "../base/files.ts";
import type { ChunkEvent, Event } from "../evidence/event.ts";

/** Leaves 24 KiB of the promised "output plus 64 KiB" to everything that is not a chunk. */
const CHUNK_ALLOWANCE_BYTES = 40 * 1024;
/** More than the longest chunk event takes. */
const LINE_BYTES = 160;
const FLUSH_BYTES = 16 * 1024;
/** How long an event may wait in memory. */
export const FLUSH_MS = 3;
/** Chunk events of so much output are kept in memory as well: more than a quickview may show. */
const KEPT_OUTPUT_BYTES = 16 * 1024;

type Stream = ChunkEvent["stream"];

export class Journal {
  /** The errno of the write that failed; the journal ends there. */
  failure: string | null = null;
  /** The first chunk events, for a view without a second read. */
  readonly kept: ChunkEvent[] = [];
  private readonly fd: number | null;
  private text = "";
  private keptBytes = 0;
  private chunkBytes = 0;
  private outputBytes = 0;
  private pending: ChunkEvent[] = [];

  /** Without a file only the first chunk events are kept. */
  constructor(fd: number | null) {
    this.fd = fd;
  }

  /**
   * Appends an event behind the chunks observed before it; near the bound they may go on growing behind it. The end of a
   * stream comes behind all of its chunks, the ends of the child and of the run behind everything.
   */
  append(event: Event): void {
    const isLast = (chunk: ChunkEvent) =>
      event.type === "child_exited" ||
      event.type === "run_finalized" ||
      (event.type === "stream_end" && event.stream === chunk.stream);
    this.writeChunks((chunk) => isLast(chunk) || this.hasRoom());
    this.text += `${JSON.stringify(event)}\n`;
  }

  chunk(stream: Stream, offset: number, bytes: number, elapsedNs: number): void {
    this.outputBytes += bytes;
    const open = this.pending.find((chunk) => chunk.stream === stream);
    if (open === undefined) {
      this.pending.push({ type: "chunk", elapsed_ns: elapsedNs, stream, offset, bytes });
    } else {
      open.bytes += bytes;
      open.chunks = (open.chunks ?? 1) + 1;
      open.elapsed_last_ns = elapsedNs;
    }
    this.writeChunks(() => this.hasRoom());
    if (this.text.length > FLUSH_BYTES) this.flush();
  }

  /** Room for one more chunk event, and for the last one of each stream. */
  private hasRoom(): boolean {
    return this.chunkBytes + 4 * LINE_BYTES < this.outputBytes + CHUNK_ALLOWANCE_BYTES;
  }

  private writeChunks(isDue: (chunk: ChunkEvent) => boolean): void {
    if (this.pending.length === 0) return;
    const waiting: ChunkEvent[] = [];
    for (const chunk of this.pending) {
      if (isDue(chunk)) this.write(chunk);
      else waiting.push(chunk);
    }
    this.pending = waiting;
  }

  get hasUnwritten(): boolean {
    return this.text.length > 0;
  }

  flush(): void {
    if (this.text.length === 0) return;
    const bytes = Buffer.from(this.text, "utf8");
    this.text = "";
    if (this.failure !== null || this.fd === null) return;
    try {
      writeWhole(this.fd, bytes);
    } catch (error) {
      this.failure = errorReason(error);
    }
  }

  private write(chunk: ChunkEvent): void {
    if (chunk.stream !== "stdin" && this.keptBytes <= KEPT_OUTPUT_BYTES) {
      this.keptBytes += chunk.bytes;
      this.kept.push(chunk);
    }
    const line = `${JSON.stringify(chunk)}\n`;
    this.chunkBytes += line.length;
    this.text += line;
  }
}
