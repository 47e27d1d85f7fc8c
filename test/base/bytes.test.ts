import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { decodeUtf8, displayBytes, fromByteText, toByteText } from "../../src/base/bytes.ts";

/** Random bytes of which most are no UTF-8, and pieces of UTF-8 that was cut anywhere. */
const bytes = fc.oneof(
  fc.uint8Array({ maxLength: 64 }),
  fc
    .tuple(fc.string({ unit: "binary", maxLength: 20 }), fc.nat({ max: 3 }), fc.nat({ max: 3 }))
    .map(([text, head, tail]) => {
      const whole = new Uint8Array(Buffer.from(text, "utf8"));
      return whole.subarray(head, Math.max(head, whole.length - tail));
    }),
);

/** By the decoder of the platform, which is not ours. */
function isUtf8(value: Uint8Array): boolean {
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(value);
    return true;
  } catch {
    return false;
  }
}

describe("byte text", () => {
  test("gives any bytes back", () => {
    fc.assert(
      fc.property(bytes, (value) => {
        const text: unknown = JSON.parse(JSON.stringify(toByteText(value)));
        expect(fromByteText(text as ReturnType<typeof toByteText>)).toEqual(Buffer.from(value));
      }),
      { numRuns: 1000 },
    );
  });

  test("is plain text for exactly the bytes that are UTF-8", () => {
    fc.assert(
      fc.property(bytes, (value) => {
        expect(typeof toByteText(value) === "string").toBe(isUtf8(value));
      }),
      { numRuns: 1000 },
    );
  });

  test.each([
    ["nothing", "", ""],
    ["a NUL", "00", "\0"],
    ["a byte order mark", "efbbbf61", "\uFEFFa"],
    ["a replacement character of its own", "efbfbd", "\uFFFD"],
    ["the last character", "f48fbfbf", "\u{10FFFF}"],
  ])("keeps %s as text", (_, hex, text) => {
    expect(toByteText(Buffer.from(hex, "hex"))).toBe(text);
  });

  test.each([
    ["a lone byte", "ff"],
    ["an overlong slash", "c0af"],
    ["a surrogate", "eda080"],
    ["a character behind the last one", "f4908080"],
    ["a character that is cut", "e282"],
    ["a replacement character beside a bad byte", "efbfbdff"],
  ])("keeps %s as base64", (_, hex) => {
    expect(toByteText(Buffer.from(hex, "hex"))).toEqual({ base64: Buffer.from(hex, "hex").toString("base64") });
    expect(decodeUtf8(Buffer.from(hex, "hex"))).toBeNull();
  });

  test("is made of a view and not of the buffer behind it", () => {
    const buffer = Buffer.from("before-the-name-behind");
    expect(toByteText(new Uint8Array(buffer.buffer, buffer.byteOffset + 7, 8))).toBe("the-name");
  });
});

describe("displayBytes", () => {
  test.each([
    ["61ff62", "a\\xffb"],
    ["c3a4ff", "ä\\xff"],
    ["e282ac80", "€\\x80"],
    ["ffe282", "\\xff\\xe2\\x82"],
    ["c0af", "\\xc0\\xaf"],
    ["eda080", "\\xed\\xa0\\x80"],
    ["f09f9880fe", "😀\\xfe"],
    ["efbfbdff", "\uFFFD\\xff"],
    ["000a09ff", "\0\n\t\\xff"],
    ["ff0a", "\\xff\n"],
  ])("shows %s as UTF-8 with the other bytes as escapes", (hex, shown) => {
    expect(displayBytes(Buffer.from(hex, "hex"))).toBe(shown);
  });

  test("shows each byte that is no UTF-8, and each character that is, in order", () => {
    fc.assert(
      fc.property(bytes, (value) => {
        const shown = displayBytes(value);
        const latin = Buffer.from(shown.replace(/\\x([0-9a-f]{2})/g, "\0$1"), "utf8").toString("latin1");
        const back = latin.replace(/\0([0-9a-f]{2})/g, (_, hex: string) =>
          String.fromCharCode(Number.parseInt(hex, 16)),
        );
        // Input that holds a backslash or a NUL of its own cannot be told apart from an escape.
        fc.pre(!value.includes(0x5c) && !value.includes(0));
        expect(Buffer.from(back, "latin1")).toEqual(Buffer.from(value));
      }),
      { numRuns: 1000 },
    );
  });
});
