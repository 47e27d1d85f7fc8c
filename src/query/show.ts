/** The beginning of a run's output: a stream, or both as they came. Bounded in items and bytes, and says so. */
import { closeSync, openSync, readSync } from "node:fs";
import { displayBytes } from "../base/bytes.ts";
import { AshError } from "../base/errors.ts";
import { renderTerminalLine } from "../base/terminal-text.ts";
import type { ChunkEvent, Event } from "../evidence/event.ts";
import { type MergedLine, mergeLines } from "../evidence/merged-lines.ts";
import { FILES, SCHEMA } from "../evidence/names.ts";
import type { QueryItem, QueryResult } from "../evidence/query-result.ts";
import type { Receipt } from "../evidence/receipt.ts";
import type { FoundRun } from "../store/find-run.ts";
import { join } from "../store/layout.ts";
import { fileBytes } from "../store/read-run.ts";

export const SOURCES = ["stdout", "stderr", "merged"] as const;
export type Source = (typeof SOURCES)[number];
type Stream = "stdout" | "stderr";

const MAX_ITEMS = 100;
const MAX_BYTES = 32 * 1024;
/** A longer line is cut, with its whole length said. */
const MAX_LINE_BYTES = 2000;
const BLOCK_BYTES = 256 * 1024;

export interface Shown {
  result: QueryResult;
  /** The files that hold the source whole. */
  files: Buffer[];
}

/** Throws AshError `evidence_missing` or `evidence_corrupt` when a stream's file is gone or differs from the receipt. */
export function showRun(run: FoundRun, receipt: Receipt | null, source: Source): Shown {
  const started = Bun.nanoseconds();
  const streams: Stream[] = source === "merged" ? ["stdout", "stderr"] : [source];
  const sizes = new Map(streams.map((stream) => [stream, checkedSize(run, receipt, stream)]));
  const { items, bound } = boundItems(firstLines(run, streams, sizes), source === "merged");
  return {
    result: {
      schema: SCHEMA.queryResult,
      run_id: run.runId,
      source,
      items,
      totals: {
        items: sum(streams, (stream) => receipt?.streams[stream]?.lines ?? countLines(run, stream)),
        bytes: sum(streams, (stream) => sizes.get(stream) ?? 0),
      },
      bound,
      cursor: null,
      next: null,
      identity: identityOf(
        receipt,
        streams,
        sum(streams, (stream) => sizes.get(stream) ?? 0),
      ),
      query_ms: (Bun.nanoseconds() - started) / 1e6,
    },
    files: streams.map((stream) => join(run.path, FILES[stream])),
  };
}

function sum<T>(values: readonly T[], of: (value: T) => number): number {
  return values.reduce((total, value) => total + of(value), 0);
}

/** A stream by its hash; merged by the hash over the identities of stdout and stderr. */
function identityOf(receipt: Receipt | null, streams: readonly Stream[], bytes: number): QueryResult["identity"] {
  const hashes = streams.map((stream) => receipt?.streams[stream]?.sha256);
  const known = hashes.every((hash) => hash !== undefined);
  const sha256 = !known
    ? null
    : hashes.length === 1
      ? hashes[0]!
      : new Bun.CryptoHasher("sha256").update(hashes.join("")).digest("hex");
  return { sha256, bytes, provisional: receipt === null };
}

function checkedSize(run: FoundRun, receipt: Receipt | null, stream: Stream): number {
  const size = fileBytes(run, FILES[stream]);
  if (size === null) throw new AshError("evidence_missing", `${FILES[stream]} of ${run.runId} is missing`);
  const recorded = receipt?.streams[stream]?.bytes;
  if (recorded !== undefined && recorded !== size) {
    throw new AshError(
      "evidence_corrupt",
      `${FILES[stream]} of ${run.runId} has ${size} bytes, its receipt says ${recorded}`,
    );
  }
  return size;
}

/** Lines from the beginning in observed order, at least as many as may be shown. */
function firstLines(run: FoundRun, streams: readonly Stream[], sizes: ReadonlyMap<Stream, number>): MergedLine[] {
  const chunks = streams.length === 1 ? [] : firstChunks(run);
  const heads: Record<Stream, Buffer> = { stdout: Buffer.alloc(0), stderr: Buffer.alloc(0) };
  for (const stream of streams) {
    const size = sizes.get(stream) ?? 0;
    const journaled = chunks
      .filter((chunk) => chunk.stream === stream)
      .reduce((end, chunk) => Math.max(end, chunk.offset + chunk.bytes), 0);
    heads[stream] = readRange(
      run,
      stream,
      0,
      Math.min(size, streams.length === 1 ? BLOCK_BYTES : Math.min(journaled, BLOCK_BYTES) || BLOCK_BYTES),
    );
  }
  const lines = mergeLines(heads, chunks);
  for (const line of lines) {
    const size = sizes.get(line.stream) ?? 0;
    if (line.unterminated && line.offset + line.content.length < size) completeLine(run, line, size);
  }
  return lines;
}

/** The line goes on behind what was read: its real end and length are looked for in the file. */
function completeLine(run: FoundRun, line: MergedLine, size: number): void {
  for (let at = line.offset + line.content.length; at < size; at += BLOCK_BYTES) {
    const block = readRange(run, line.stream, at, Math.min(BLOCK_BYTES, size - at));
    const feed = block.indexOf(0x0a);
    const part = feed < 0 ? block : block.subarray(0, feed);
    if (line.content.length <= MAX_LINE_BYTES)
      line.content = Buffer.concat([line.content, part.subarray(0, MAX_LINE_BYTES + 1)]);
    line.bytes = at + part.length - line.offset;
    if (feed >= 0) {
      line.unterminated = false;
      return;
    }
  }
}

/** Chunk events from the beginning of the journal that cover a block. A torn or damaged line ends the reading. */
function firstChunks(run: FoundRun): ChunkEvent[] {
  const chunks: ChunkEvent[] = [];
  let covered = 0;
  const size = fileBytes(run, FILES.events) ?? 0;
  let rest: Buffer = Buffer.alloc(0);
  for (let at = 0; at < size && covered < BLOCK_BYTES; at += BLOCK_BYTES) {
    rest = Buffer.concat([rest, readRange(run, "events", at, Math.min(BLOCK_BYTES, size - at))]);
    for (let feed = rest.indexOf(0x0a); feed >= 0 && covered < BLOCK_BYTES; feed = rest.indexOf(0x0a)) {
      let event: Event;
      try {
        event = JSON.parse(rest.toString("utf8", 0, feed)) as Event;
      } catch {
        return chunks;
      }
      rest = rest.subarray(feed + 1);
      if (event.type !== "chunk") continue;
      chunks.push(event);
      covered += event.bytes;
    }
  }
  return chunks;
}

function readRange(run: FoundRun, file: Stream | "events", offset: number, length: number): Buffer {
  const buffer = Buffer.alloc(length);
  const fd = openSync(join(run.path, FILES[file]), "r");
  try {
    let at = 0;
    while (at < length) {
      const count = readSync(fd, buffer, at, length - at, offset + at);
      if (count === 0) break;
      at += count;
    }
    return buffer.subarray(0, at);
  } finally {
    closeSync(fd);
  }
}

function countLines(run: FoundRun, stream: Stream): number {
  const size = fileBytes(run, FILES[stream]) ?? 0;
  let lines = 0;
  let last = 0x0a;
  for (let at = 0; at < size; at += BLOCK_BYTES) {
    const block = readRange(run, stream, at, Math.min(BLOCK_BYTES, size - at));
    for (const byte of block) if (byte === 0x0a) lines += 1;
    last = block.at(-1) ?? last;
  }
  return lines + (last === 0x0a ? 0 : 1);
}

function boundItems(
  lines: readonly MergedLine[],
  merged: boolean,
): { items: QueryItem[]; bound: QueryResult["bound"] } {
  const items: QueryItem[] = [];
  let bytes = 0;
  for (const [index, line] of lines.entries()) {
    if (items.length === MAX_ITEMS) return { items, bound: "items" };
    const length = line.bytes ?? line.content.length;
    const text = renderTerminalLine(displayBytes(cutAtCharacter(line.content)));
    bytes += Buffer.byteLength(text) + 1;
    if (bytes > MAX_BYTES) return { items, bound: "bytes" };
    items.push({
      line: merged ? index + 1 : line.line,
      ...(merged ? { stream: line.stream, stream_line: line.line, elapsed_ns: line.elapsedNs } : {}),
      offset: line.offset,
      bytes: length,
      text,
      truncated: line.content.length > MAX_LINE_BYTES,
      unterminated: line.unterminated,
      captures: {},
    });
  }
  return { items, bound: null };
}

/** At most MAX_LINE_BYTES, not ending inside a UTF-8 character. */
function cutAtCharacter(content: Buffer): Buffer {
  if (content.length <= MAX_LINE_BYTES) return content;
  let end = MAX_LINE_BYTES;
  while (end > MAX_LINE_BYTES - 4 && (content[end]! & 0xc0) === 0x80) end -= 1;
  return content.subarray(0, end);
}
