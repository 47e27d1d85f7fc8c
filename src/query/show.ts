/** The beginning of a run's output: a stream, or both as they came. Bounded in items and bytes, and says so. */
import { decodeEscaped } from "../base/bytes.ts";
import { AshError } from "../base/errors.ts";
import { LineCounter } from "../base/line-count.ts";
import { renderTerminalLine } from "../base/terminal-text.ts";
import { FILES, SCHEMA } from "../evidence/names.ts";
import type { QueryItem, QueryResult } from "../evidence/query-result.ts";
import type { Receipt } from "../evidence/receipt.ts";
import type { FoundRun } from "../store/find-run.ts";
import { join } from "../store/layout.ts";
import { fileBytes } from "../store/read-run.ts";
import { blocksOf, type LineStart, lineStarts, type OutputStream, observedStretches } from "./line-starts.ts";

export const SOURCES = ["stdout", "stderr", "merged"] as const;
export type Source = (typeof SOURCES)[number];

const MAX_ITEMS = 100;
const MAX_BYTES = 32 * 1024;
/** A longer line is cut, with its whole length said. */
const MAX_LINE_BYTES = 2000;

export interface Shown {
  result: QueryResult;
  /** The files that hold the source whole. */
  files: Buffer[];
}

/** Throws AshError `evidence_missing` or `evidence_corrupt` when a stream's file is gone or differs from the receipt. */
export function showRun(run: FoundRun, receipt: Receipt | null, source: Source): Shown {
  const started = Bun.nanoseconds();
  const streams: OutputStream[] = source === "merged" ? ["stdout", "stderr"] : [source];
  const sizes = new Map(streams.map((stream) => [stream, checkedSize(run, receipt, stream)]));
  const bytes = sum(streams, (stream) => sizes.get(stream) ?? 0);
  const { items, bound } = firstItems(run, streams, sizes);
  return {
    result: {
      schema: SCHEMA.queryResult,
      run_id: run.runId,
      source,
      items,
      totals: {
        items: sum(streams, (stream) => receipt?.streams[stream]?.lines ?? countLines(run, stream)),
        bytes,
      },
      bound,
      cursor: null,
      next: null,
      identity: identityOf(receipt, streams, bytes),
      query_ms: (Bun.nanoseconds() - started) / 1e6,
    },
    files: streams.map((stream) => join(run.path, FILES[stream])),
  };
}

function sum<T>(values: readonly T[], of: (value: T) => number): number {
  return values.reduce((total, value) => total + of(value), 0);
}

/** A stream by its hash; merged by the hash over the identities of stdout and stderr. */
function identityOf(receipt: Receipt | null, streams: readonly OutputStream[], bytes: number): QueryResult["identity"] {
  const hashes = streams.map((stream) => receipt?.streams[stream]?.sha256);
  const known = hashes.every((hash) => hash !== undefined);
  const sha256 = !known
    ? null
    : hashes.length === 1
      ? hashes[0]!
      : new Bun.CryptoHasher("sha256").update(hashes.join("")).digest("hex");
  return { sha256, bytes, provisional: receipt === null };
}

function checkedSize(run: FoundRun, receipt: Receipt | null, stream: OutputStream): number {
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

function countLines(run: FoundRun, stream: OutputStream): number {
  const counter = new LineCounter();
  for (const { block } of blocksOf(run, FILES[stream], 0, fileBytes(run, FILES[stream]) ?? 0)) counter.add(block);
  return counter.lines;
}

function firstItems(
  run: FoundRun,
  streams: readonly OutputStream[],
  sizes: ReadonlyMap<OutputStream, number>,
): { items: QueryItem[]; bound: QueryResult["bound"] } {
  const items: QueryItem[] = [];
  const [only] = streams;
  const merged = streams.length > 1 || only === undefined;
  const stretches = merged
    ? observedStretches(run, sizes)
    : [{ stream: only, offset: 0, bytes: sizes.get(only) ?? 0, elapsedNs: null }];
  let bytes = 0;
  for (const start of lineStarts(run, stretches)) {
    if (items.length === MAX_ITEMS) return { items, bound: "items" };
    const item = readItem(run, start, sizes.get(start.stream) ?? 0);
    bytes += Buffer.byteLength(item.text) + 1;
    if (bytes > MAX_BYTES) return { items, bound: "bytes" };
    const { stream, line: stream_line, elapsedNs } = start;
    const place = merged ? { stream, stream_line, ...(elapsedNs === null ? {} : { elapsed_ns: elapsedNs }) } : {};
    items.push({ ...item, line: merged ? items.length + 1 : start.line, ...place });
  }
  return { items, bound: null };
}

/** One line: its beginning as text, and its whole length however long it is. */
function readItem(run: FoundRun, { stream, offset }: LineStart, size: number): Omit<QueryItem, "line"> {
  let content: Buffer = Buffer.alloc(0);
  let length = 0;
  let unterminated = true;
  for (const { block } of blocksOf(run, FILES[stream], offset, size)) {
    const feed = block.indexOf(0x0a);
    const part = feed < 0 ? block : block.subarray(0, feed);
    if (content.length <= MAX_LINE_BYTES + 1) content = Buffer.concat([content, part.subarray(0, MAX_LINE_BYTES + 2)]);
    length += part.length;
    unterminated = feed < 0;
    if (!unterminated) break;
  }
  // The carriage return of a CRLF ending is no part of the line.
  if (!unterminated && content.length === length && content.at(-1) === 0x0d) {
    content = content.subarray(0, -1);
    length -= 1;
  }
  return {
    offset,
    bytes: length,
    text: renderTerminalLine(decodeEscaped(cutAtCharacter(content))),
    truncated: length > MAX_LINE_BYTES,
    unterminated,
    captures: {},
  };
}

/** At most MAX_LINE_BYTES, not ending inside a UTF-8 character. */
function cutAtCharacter(content: Buffer): Buffer {
  if (content.length <= MAX_LINE_BYTES) return content;
  let end = MAX_LINE_BYTES;
  while (end > MAX_LINE_BYTES - 4 && (content[end]! & 0xc0) === 0x80) end -= 1;
  return content.subarray(0, end);
}
