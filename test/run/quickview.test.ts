import { describe, expect, test } from "bun:test";
import { closeSync, openSync } from "node:fs";
import fc from "fast-check";
import { renderTerminalLine } from "../../src/base/terminal-text.ts";
import type { ChunkEvent } from "../../src/evidence/event.ts";
import { makeInline, makeQuickview } from "../../src/run/quickview.ts";
import { StreamCapture } from "../../src/run/stream-capture.ts";
import { TempDirectory } from "../helpers/temp-directory.ts";

type Output = string | Uint8Array;

/** A stream that was stored. */
function stored(output: Output): StreamCapture {
  using temp = new TempDirectory();
  const fd = openSync(temp.at("stream"), "wx");
  const capture = new StreamCapture(fd);
  capture.write(Buffer.from(output as string));
  closeSync(fd);
  return capture;
}

/** A stream that no store took. */
function unstored(output: Output): StreamCapture {
  const capture = new StreamCapture(null);
  capture.write(Buffer.from(output as string));
  return capture;
}

function quickview(stdout: Output, stderr: Output = "", chunks?: ChunkEvent[]) {
  const all = (
    [
      ["stdout", stdout],
      ["stderr", stderr],
    ] as const
  )
    .filter(([, output]) => output.length > 0)
    .map(([stream, output], i): ChunkEvent => {
      const bytes = Buffer.from(output as string).length;
      return { type: "chunk", elapsed_ns: 10 * (i + 1), stream, offset: 0, bytes };
    });
  return makeQuickview(stored(stdout), stored(stderr), chunks ?? all);
}

const texts = (view: ReturnType<typeof quickview>) => view?.items.map(({ text }) => text) ?? null;
const lines = (count: number) => Array.from({ length: count }, (_, i) => `line ${i + 1}\n`).join("");

describe("a quickview", () => {
  test("has each line with its stream, its place and its time, in observed order", () => {
    const chunks: ChunkEvent[] = [
      { type: "chunk", elapsed_ns: 5, stream: "stderr", offset: 0, bytes: 4 },
      { type: "chunk", elapsed_ns: 9, stream: "stdout", offset: 0, bytes: 6 },
    ];
    expect(quickview("a\r\nböc".slice(0, 5), "err\n", chunks)).toEqual({
      items: [
        { line: 1, stream: "stderr", elapsed_ns: 5, offset: 0, bytes: 3, text: "err", unterminated: false },
        { line: 1, stream: "stdout", elapsed_ns: 9, offset: 0, bytes: 1, text: "a", unterminated: false },
        { line: 2, stream: "stdout", elapsed_ns: 9, offset: 3, bytes: 3, text: "bö", unterminated: true },
      ],
    });
  });

  test("is there for 10 lines and not for 11, a last fragment and both streams counted", () => {
    expect(quickview(lines(10))?.items).toHaveLength(10);
    expect(quickview(lines(11))).toBeNull();
    expect(quickview(`${lines(9)}rest`)?.items).toHaveLength(10);
    expect(quickview(`${lines(10)}rest`)).toBeNull();
    expect(quickview(lines(6), lines(4))?.items).toHaveLength(10);
    expect(quickview(lines(6), lines(5))).toBeNull();
    expect(quickview("\n".repeat(10))?.items).toHaveLength(10);
    expect(quickview("\n".repeat(11))).toBeNull();
  });

  test("is there for 16,384 bytes and not for 16,385, both streams together", () => {
    expect(texts(quickview("x".repeat(16_384)))).toEqual(["x".repeat(16_384)]);
    expect(quickview("x".repeat(16_385))).toBeNull();
    expect(quickview("x".repeat(8000), "y".repeat(8384))?.items).toHaveLength(2);
    expect(quickview("x".repeat(8000), "y".repeat(8385))).toBeNull();
    expect(quickview("ä".repeat(8192))?.items).toHaveLength(1);
    expect(quickview(`${"ä".repeat(8192)}\n`)).toBeNull();
  });

  test("is not there for nothing", () => {
    expect(quickview("")).toBeNull();
  });

  test.each([
    ["a lone byte", [0xff]],
    ["a character that is cut", [0x61, 0xe2, 0x82]],
    ["a surrogate", [0xed, 0xa0, 0x80]],
  ])("is not there when a stream is no UTF-8: %s", (_, bytes) => {
    expect(quickview(Uint8Array.from(bytes))).toBeNull();
    expect(quickview("fine\n", Uint8Array.from(bytes))).toBeNull();
  });

  test("shows control characters, and acts on carriage returns and colours as a terminal does", () => {
    expect(texts(quickview("a\0b\n"))).toEqual(["a\\x00b"]);
    expect(texts(quickview("50%\r100%\n\x1b[31mred\x1b[0m\n"))).toEqual(["100%", "red"]);
    expect(texts(quickview("\u202eevil\n"))).toEqual(["\\u{202e}evil"]);
  });

  test("shows what memory has, also when it could not be stored: 'abc' on a full device", () => {
    const fd = openSync("/dev/full", "w");
    const capture = new StreamCapture(fd);
    capture.write(Buffer.from("abc\n"));
    closeSync(fd);
    expect(capture.lostBytes).toBe(4);
    expect(texts(makeQuickview(capture, stored(""), []))).toEqual(["abc"]);
  });
});

describe("the inline answer of a run without a store", () => {
  test("has a small stream whole, and none that is empty", () => {
    expect(makeInline(unstored("a\nb\r\nc"), unstored(""))).toEqual({
      items: [{ stream: "stdout", part: "whole", lines: ["a", "b", "c"], omitted_bytes: 0 }],
    });
    expect(makeInline(unstored(""), unstored(""))).toEqual({ items: [] });
  });

  test("has the true ends of a stream that memory does not hold, and counts what is between", () => {
    const bytes = Buffer.from(`begin\n${"middle\n".repeat(900_000)}end\n`);
    const [head, tail, stderr] = makeInline(unstored(bytes), unstored("e")).items;
    expect([head?.part, tail?.part]).toEqual(["head", "tail"]);
    expect(stderr).toEqual({ stream: "stderr", part: "whole", lines: ["e"], omitted_bytes: 0 });
    expect([head?.lines.slice(0, 2), tail?.lines.slice(-2)]).toEqual([
      ["begin", "middle"],
      ["middle", "end"],
    ]);
    const shown = [...head!.lines, ...tail!.lines].reduce((sum, line) => sum + line.length + 1, 0);
    expect([head?.omitted_bytes, tail?.omitted_bytes]).toEqual([bytes.length - shown, bytes.length - shown]);
  });

  test("has a part of a line that is too long for it, from either end", () => {
    const text = `begin${"x".repeat(50_000)}end`;
    const [head, tail] = makeInline(unstored(text), unstored("")).items;
    expect([head?.lines.length, tail?.lines.length]).toEqual([1, 1]);
    expect(text.startsWith(head!.lines[0]!) && text.endsWith(tail!.lines[0]!)).toBe(true);
    expect(head!.lines[0]!.length).toBeGreaterThan(4000);
    expect(head?.omitted_bytes).toBe(text.length - head!.lines[0]!.length - tail!.lines[0]!.length);
  });

  test("is at most 16 KiB as text, and its lines are those of the stream from both ends", () => {
    const line = fc.string({ unit: fc.constantFrom("a", "ä", "\0", "漢", "\u202e"), minLength: 1, maxLength: 300 });
    const output = fc.array(line, { minLength: 1, maxLength: 400 });
    fc.assert(
      fc.property(output, output, (stdout, stderr) => {
        const { items } = makeInline(unstored(`${stdout.join("\n")}\n`), unstored(`${stderr.join("\n")}\n`));
        const text = items
          .flatMap(({ stream, lines: shown }) => shown.map((one) => `    ${stream}| ${one}\n`))
          .join("");
        expect(Buffer.byteLength(text)).toBeLessThanOrEqual(16 * 1024);
        for (const { stream, part, lines: shown } of items) {
          const all = (stream === "stdout" ? stdout : stderr).map(renderTerminalLine);
          // Of a line that is too long, a part is shown.
          if (shown.length === 1 && part !== "whole") continue;
          expect(shown).toEqual(part === "tail" ? all.slice(-shown.length) : all.slice(0, shown.length));
          if (part === "whole") expect(shown).toHaveLength(all.length);
        }
      }),
      { numRuns: 200 },
    );
  }, 30_000);

  test("shows an empty line between both ends once: 292 lines of 'a', an empty one, 'b'", () => {
    const { items } = makeInline(unstored(`${"a\n".repeat(292)}\nb\n`), unstored(""));
    expect(items[1]).toEqual({ stream: "stdout", part: "tail", lines: ["", "b"], omitted_bytes: 0 });
  });

  test("shows bytes that are no UTF-8, and control characters", () => {
    const { items } = makeInline(unstored(Uint8Array.from([0x61, 0xff, 0x00, 0x0a])), unstored("\x1b[31mx\x1b[0m\n"));
    expect(items.map(({ lines: shown }) => shown)).toEqual([["a\\xff\\x00"], ["x"]]);
  });
});
