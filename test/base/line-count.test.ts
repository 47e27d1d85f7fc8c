import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { LineCounter } from "../../src/base/line-count.ts";

function count(chunks: readonly Uint8Array[]): { count: number; lines: number } {
  const counter = new LineCounter();
  for (const chunk of chunks) counter.add(chunk);
  return { count: counter.count, lines: counter.lines };
}

function naive(bytes: Uint8Array): { count: number; lines: number } {
  const feeds = bytes.filter((byte) => byte === 0x0a).length;
  return { count: feeds, lines: feeds + (bytes.length > 0 && bytes.at(-1) !== 0x0a ? 1 : 0) };
}

/** From nothing but line feeds to none. Bytes next to 0x0a, and 0x8a, are where counting by words could go wrong. */
const content = fc.oneof(
  fc.uint8Array({ maxLength: 3000 }),
  fc
    .array(fc.constantFrom(0x0a, 0x0a, 0x0b, 0x09, 0x8a, 0x00, 0xff), { maxLength: 3000 })
    .map((a) => Uint8Array.from(a)),
  fc.nat({ max: 9000 }).map((length) => new Uint8Array(length).fill(0x0a)),
  fc.nat({ max: 9000 }).map((length) => new Uint8Array(length).fill(0x41)),
);

describe("LineCounter", () => {
  test("counts what a simple count gives, however the bytes are cut and aligned", () => {
    fc.assert(
      fc.property(
        fc.array(content, { maxLength: 4 }),
        fc.array(fc.integer({ min: 0, max: 1500 }), { minLength: 1, maxLength: 8 }),
        fc.nat({ max: 7 }),
        (contents, sizes, shift) => {
          const all = Buffer.concat(contents);
          const memory = new Uint8Array(new ArrayBuffer(all.length + shift));
          memory.set(all, shift);
          const chunks: Uint8Array[] = [];
          // Sizes that are all 0 would never get through.
          for (let at = 0, i = 0; at < all.length; i += 1) {
            const size = i < sizes.length * 2 ? sizes[i % sizes.length]! : 1 << 20;
            chunks.push(memory.subarray(shift + at, shift + Math.min(at + size, all.length)));
            at += size;
          }
          expect(count(chunks)).toEqual(naive(all));
        },
      ),
      { numRuns: 1500 },
    );
  }, 30_000);

  test("counts a buffer that is filled anew for each read, as a stream's is", () => {
    fc.assert(
      fc.property(fc.array(content, { maxLength: 6 }), (reads) => {
        const buffer = new Uint8Array(new ArrayBuffer(9000));
        const counter = new LineCounter();
        for (const read of reads) {
          buffer.set(read);
          counter.add(buffer.subarray(0, read.length));
        }
        expect(counter.count).toBe(naive(Buffer.concat(reads)).count);
      }),
      { numRuns: 500 },
    );
  }, 30_000);

  test.each([
    ["", 0],
    ["\n", 1],
    ["a", 1],
    ["a\n", 1],
    ["a\nb", 2],
    ["\n\n", 2],
    ["a\r\n", 1],
    ["a\r", 1],
  ])("takes %p for %p lines", (text, lines) => {
    expect(count([Buffer.from(text)]).lines).toBe(lines);
  });

  test("is not changed by an empty chunk behind a fragment", () => {
    expect(count([Buffer.from("a"), Buffer.alloc(0)])).toEqual({ count: 0, lines: 1 });
  });
});
