/** The whole output of a small run, safe to print; and both ends of what could not be stored. */
import { decodeUtf8, displayBytes } from "../base/bytes.ts";
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

/** First and last lines of each stream of a run that no store could take. At most 16 KiB of output. */
export function makeInline(stdout: StreamCapture, stderr: StreamCapture): NonNullable<Completion["inline"]> {
  const items: NonNullable<Completion["inline"]>["items"] = [];
  for (const [stream, capture] of [
    ["stdout", stdout],
    ["stderr", stderr],
  ] as const) {
    const total = capture.bytes + capture.lostBytes;
    const { head, tail } = capture.ends();
    if (total <= INLINE_END_BYTES * 2) {
      if (total > 0) items.push({ stream, part: "whole", lines: visibleLines(head), omitted_bytes: 0 });
      continue;
    }
    const first = head.subarray(0, INLINE_END_BYTES);
    const all = Buffer.concat([head, tail]);
    const last = all.subarray(all.length - INLINE_END_BYTES);
    const omitted = total - first.length - last.length;
    items.push({ stream, part: "head", lines: visibleLines(first), omitted_bytes: omitted });
    items.push({ stream, part: "tail", lines: visibleLines(last), omitted_bytes: omitted });
  }
  return { items };
}

function visibleLines(bytes: Buffer): string[] {
  const lines = displayBytes(bytes).split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines.map((line) => renderTerminalLine(line.replace(/\r$/, "")));
}
