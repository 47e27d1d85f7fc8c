/** The whole output of a small run, safe to print. */
import { decodeUtf8 } from "../base/bytes.ts";
import { renderTerminalLine } from "../base/terminal-text.ts";
import type { Completion } from "../evidence/completion.ts";
import type { ChunkEvent } from "../evidence/event.ts";
import { mergeLines } from "../evidence/merged-lines.ts";
import type { StreamCapture } from "./stream-capture.ts";

const MAX_LINES = 10;
const MAX_BYTES = 16 * 1024;

/** All of stdout and stderr in observed order; null when there is none, too much of it, or it is not all UTF-8. */
export function makeQuickview(
  stdout: StreamCapture,
  stderr: StreamCapture,
  chunks: readonly ChunkEvent[],
): Completion["quickview"] {
  const bytes = stdout.bytes + stderr.bytes;
  if (bytes === 0 || bytes > MAX_BYTES || stdout.lines + stderr.lines > MAX_LINES) return null;
  if (stdout.lostBytes + stderr.lostBytes > 0) return null;
  const heads = { stdout: stdout.head(), stderr: stderr.head() };
  if (decodeUtf8(heads.stdout) === null || decodeUtf8(heads.stderr) === null) return null;
  return {
    items: mergeLines(heads, chunks).map((line) => ({
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
