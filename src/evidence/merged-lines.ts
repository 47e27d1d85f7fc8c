/** Logical lines of both output streams in observed order. Pure; the input is small or a bounded prefix. */
import type { ChunkEvent } from "./event.ts";

export interface MergedLine {
  stream: "stdout" | "stderr";
  /** 1-based, in its own stream. */
  line: number;
  /** When its first byte was observed. */
  elapsedNs: number;
  offset: number;
  /** Without the line ending (LF or CRLF). */
  content: Buffer;
  /** The stream ended before a line ending. */
  unterminated: boolean;
}

/** Orders lines by the time their first byte was observed: by the chunk event that holds it, in journal order. */
export function mergeLines(streams: { stdout: Buffer; stderr: Buffer }, chunks: readonly ChunkEvent[]): MergedLine[] {
  const ordered: { line: MergedLine; event: number }[] = [];
  for (const stream of ["stdout", "stderr"] as const) {
    const own = chunks.map((chunk, event) => ({ chunk, event })).filter(({ chunk }) => chunk.stream === stream);
    let at = 0;
    for (const line of splitLines(streams[stream])) {
      while (at + 1 < own.length && line.offset >= own[at]!.chunk.offset + own[at]!.chunk.bytes) at += 1;
      const holder = own[at];
      ordered.push({
        line: { stream, ...line, elapsedNs: holder?.chunk.elapsed_ns ?? 0 },
        event: holder?.event ?? chunks.length,
      });
    }
  }
  ordered.sort((a, b) => a.event - b.event || a.line.offset - b.line.offset);
  return ordered.map(({ line }) => line);
}

function splitLines(bytes: Buffer): Omit<MergedLine, "stream" | "elapsedNs">[] {
  const lines: Omit<MergedLine, "stream" | "elapsedNs">[] = [];
  for (let offset = 0; offset < bytes.length; ) {
    const feed = bytes.indexOf(0x0a, offset);
    const end = feed < 0 ? bytes.length : feed;
    const contentEnd = feed > offset && bytes[feed - 1] === 0x0d ? feed - 1 : end;
    lines.push({
      line: lines.length + 1,
      offset,
      content: bytes.subarray(offset, contentEnd),
      unterminated: feed < 0,
    });
    offset = end + 1;
  }
  return lines;
}
