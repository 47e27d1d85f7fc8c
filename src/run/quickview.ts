/** The whole output of a small run, safe to print; and both ends of what could not be stored. */
import { decodeEscaped, decodeUtf8 } from "../base/bytes.ts";
import { renderTerminalLine } from "../base/terminal-text.ts";
import type { Completion } from "../evidence/completion.ts";
import type { ChunkEvent } from "../evidence/event.ts";
import { mergeLines } from "../evidence/merged-lines.ts";
import type { StreamCapture } from "./stream-capture.ts";

const MAX_LINES = 10;
const MAX_BYTES = 16 * 1024;
/** Of the inline answer: two streams with two ends each. */
const INLINE_END_BYTES = MAX_BYTES / 4;

/** All of stdout and stderr in observed order; null when there is none, too much of it, or it is not all UTF-8. */
export function makeQuickview(
  stdout: StreamCapture,
  stderr: StreamCapture,
  chunks: readonly ChunkEvent[],
): Completion["quickview"] {
  const streams = { stdout: stdout.whole(), stderr: stderr.whole() };
  if (streams.stdout === null || streams.stderr === null) return null;
  const bytes = streams.stdout.length + streams.stderr.length;
  if (bytes === 0 || bytes > MAX_BYTES) return null;
  if (decodeUtf8(streams.stdout) === null || decodeUtf8(streams.stderr) === null) return null;
  const lines = mergeLines({ stdout: streams.stdout, stderr: streams.stderr }, chunks);
  if (lines.length > MAX_LINES) return null;
  return {
    items: lines.map((line) => ({
      line: line.line,
      stream: line.stream,
      elapsed_ns: line.elapsedNs,
      offset: line.offset,
      bytes: line.content.length,
      text: renderTerminalLine(line.content.toString("utf8")),
      unterminated: line.unterminated,
    })),
  };
}

/** First and last lines of each stream of a run that no store could take. At most 16 KiB as text. */
export function makeInline(stdout: StreamCapture, stderr: StreamCapture): NonNullable<Completion["inline"]> {
  const items: NonNullable<Completion["inline"]>["items"] = [];
  for (const [stream, capture] of [
    ["stdout", stdout],
    ["stderr", stderr],
  ] as const) {
    const total = capture.bytes + capture.lostBytes;
    if (total === 0) continue;
    const { head, tail } = capture.ends();
    const first = takeLines(head, "head");
    if (first.bytes === total) {
      items.push({ stream, part: "whole", lines: first.lines, omitted_bytes: 0 });
      continue;
    }
    const rest = tail.length === 0 ? head.subarray(first.bytes) : tail;
    const last = takeLines(rest, "tail");
    const omitted_bytes = total - first.bytes - last.bytes;
    items.push({ stream, part: "head", lines: first.lines, omitted_bytes });
    items.push({ stream, part: "tail", lines: last.lines, omitted_bytes });
  }
  return { items };
}

/** What a line costs beside its text: its indent, its stream and its end. */
const LINE_COST = "    stdout| \n".length;

/** Whole lines from one end of `bytes`, as many as INLINE_END_BYTES of text hold; of a longer line, a part. */
function takeLines(bytes: Buffer, end: "head" | "tail"): { lines: string[]; bytes: number } {
  const lines: string[] = [];
  let taken = 0;
  for (let room = INLINE_END_BYTES; taken < bytes.length; ) {
    const line = nextLine(end === "head" ? bytes.subarray(taken) : bytes.subarray(0, bytes.length - taken), end);
    const limit = Math.max(0, room - LINE_COST);
    const part = end === "head" ? line.subarray(0, limit) : line.subarray(Math.max(0, line.length - limit));
    const text = renderTerminalLine(decodeEscaped(part).replace(/\r?\n$/, ""));
    const cost = Buffer.byteLength(text) + LINE_COST;
    if (cost > room && lines.length > 0) break;
    if (part.length < line.length && lines.length > 0) break;
    lines.push(text);
    taken += part.length;
    room -= cost;
    if (part.length < line.length || room <= LINE_COST) break;
  }
  return { lines: end === "head" ? lines : lines.reverse(), bytes: taken };
}

/** The first or the last line with its line feed. */
function nextLine(bytes: Buffer, end: "head" | "tail"): Buffer {
  if (end === "head") {
    const feed = bytes.indexOf(0x0a);
    return feed < 0 ? bytes : bytes.subarray(0, feed + 1);
  }
  // A position before the first byte would be counted from the end.
  return bytes.length === 1 ? bytes : bytes.subarray(bytes.lastIndexOf(0x0a, bytes.length - 2) + 1);
}
