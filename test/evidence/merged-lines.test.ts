import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { ChunkEvent } from "../../src/evidence/event.ts";
import { mergeLines } from "../../src/evidence/merged-lines.ts";

type Output = { stream: "stdout" | "stderr"; text: string };

/** What a journal tells of these reads, one chunk each, 10 ns apart. */
function journalOf(reads: readonly Output[]): {
  streams: { stdout: Buffer; stderr: Buffer };
  chunks: ChunkEvent[];
} {
  const offsets = { stdout: 0, stderr: 0 };
  const chunks = reads.map(({ stream, text }, i): ChunkEvent => {
    const bytes = Buffer.byteLength(text, "latin1");
    const offset = offsets[stream];
    offsets[stream] += bytes;
    return { type: "chunk", elapsed_ns: 10 * (i + 1), stream, offset, bytes };
  });
  const all = (name: Output["stream"]) =>
    Buffer.from(
      reads
        .filter(({ stream }) => stream === name)
        .map(({ text }) => text)
        .join(""),
      "latin1",
    );
  return { streams: { stdout: all("stdout"), stderr: all("stderr") }, chunks };
}

const out = (text: string): Output => ({ stream: "stdout", text });
const err = (text: string): Output => ({ stream: "stderr", text });

/** `NAME LINE TIME TEXT`, with `~` behind a line that has no end. */
function merged(...reads: Output[]): string[] {
  const { streams, chunks } = journalOf(reads);
  return mergeLines(streams, chunks).map(
    ({ stream, line, elapsedNs, content, unterminated }) =>
      `${stream === "stdout" ? "o" : "e"}${line} ${elapsedNs} ${content.toString("latin1")}${unterminated ? "~" : ""}`,
  );
}

describe("mergeLines", () => {
  test.each<[string, Output[], string[]]>([
    ["nothing", [], []],
    ["one line", [out("a\n")], ["o1 10 a"]],
    ["a fragment at the end", [out("a\nb")], ["o1 10 a", "o2 10 b~"]],
    ["an empty line", [out("\n\n")], ["o1 10 ", "o2 10 "]],
    ["CRLF", [out("a\r\n\r\n")], ["o1 10 a", "o2 10 "]],
    ["a carriage return within and at the end", [out("a\rb\r")], ["o1 10 a\rb\r~"]],
    ["CRCRLF", [out("a\r\r\n")], ["o1 10 a\r"]],
    ["two streams in turns", [out("a\n"), err("b\n"), out("c\n")], ["o1 10 a", "e1 20 b", "o2 30 c"]],
    ["a line that was begun before another's", [out("a"), err("b\n"), out("c\n")], ["o1 10 ac", "e1 20 b"]],
    ["a line that begins within a read", [out("a\nb"), err("x\n"), out("c\n")], ["o1 10 a", "o2 10 bc", "e1 20 x"]],
    ["a CRLF between two reads", [out("a\r"), err("x\n"), out("\nb\n")], ["o1 10 a", "e1 20 x", "o2 30 b"]],
    ["a character cut between two reads", [out("\xc3"), err("x\n"), out("\xa4\n")], ["o1 10 \xc3\xa4", "e1 20 x"]],
  ])("orders lines by their first byte: %s", (_, reads, lines) => {
    expect(merged(...reads)).toEqual(lines);
  });

  test("goes by the order of the journal where two reads have one time", () => {
    const { streams, chunks } = journalOf([out("a\n"), err("b\n"), out("c\n")]);
    for (const chunk of chunks) chunk.elapsed_ns = 7;
    expect(mergeLines(streams, chunks).map(({ content }) => content.toString())).toEqual(["a", "b", "c"]);
  });

  test("takes bytes behind the last chunk for observed with it", () => {
    const { streams, chunks } = journalOf([out("a\n"), err("x\n"), out("b\nc\n")]);
    expect(mergeLines(streams, chunks.slice(0, 2)).map(({ elapsedNs }) => elapsedNs)).toEqual([10, 10, 10, 20]);
  });

  test("puts every byte of both streams in exactly one line, in the order of the first bytes", () => {
    const piece = fc.oneof(
      fc.string({ unit: fc.constantFrom("a", "b", "\n", "\r", "\r\n"), maxLength: 8 }),
      fc.string({ unit: fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code)), maxLength: 8 }),
    );
    const read = fc.record({ stream: fc.constantFrom("stdout" as const, "stderr" as const), text: piece });
    fc.assert(
      fc.property(fc.array(read, { maxLength: 20 }), (reads) => {
        const { streams, chunks } = journalOf(reads);
        const lines = mergeLines(streams, chunks);
        for (const name of ["stdout", "stderr"] as const) {
          const own = lines.filter(({ stream }) => stream === name);
          const bytes = streams[name];
          expect(own.map(({ line }) => line)).toEqual(own.map((_, i) => i + 1));
          own.forEach(({ offset, content, unterminated }, i) => {
            const end = own[i + 1]?.offset ?? bytes.length;
            expect(bytes.subarray(offset, offset + content.length).equals(content)).toBe(true);
            expect(content.includes(0x0a)).toBe(false);
            const ending = bytes.toString("latin1", offset + content.length, end);
            expect(unterminated ? ending === "" : ending === "\n" || ending === "\r\n").toBe(true);
            expect(unterminated).toBe(end === bytes.length && bytes.at(-1) !== 0x0a);
          });
          expect(own[0]?.offset ?? bytes.length).toBe(0);
        }
        const firstRead = lines.map(({ stream, offset }) =>
          chunks.findIndex((c) => c.stream === stream && c.offset <= offset && offset < c.offset + c.bytes),
        );
        expect(firstRead).toEqual([...firstRead].sort((a, b) => a - b));
        expect(lines.map(({ elapsedNs }) => elapsedNs)).toEqual(firstRead.map((i) => chunks[i]!.elapsed_ns));
      }),
      { numRuns: 1000 },
    );
  });
});
