import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { makeVisible, renderTerminalLine } from "../../src/base/terminal-text.ts";

const ESC = "\x1b";
const BEL = "\x07";
const ST = `${ESC}\\`;

/** What must not reach a terminal: control characters but tab, and what changes the direction or cannot be seen. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are looked for
const UNSAFE = /[\u0000-\u0008\u000a-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/;

describe("renderTerminalLine", () => {
  test.each([
    ["plain text", "1 failed, 4 passed", "1 failed, 4 passed"],
    ["tabs", "a\tb", "a\tb"],
    ["a tab beside a colour", `a\t${ESC}[31mb${ESC}[0m`, "a\tb"],
    ["other scripts", "größer 漢字 👍", "größer 漢字 👍"],
    ["an empty line", "", ""],
  ])("keeps %s", (_, line, shown) => {
    expect(renderTerminalLine(line)).toBe(shown);
  });

  test.each([
    ["a colour", `${ESC}[1;31mred${ESC}[0m`, "red"],
    ["a colour with colons", `${ESC}[38:2::255:0:0mred${ESC}[m`, "red"],
    ["a private mode", `${ESC}[?25lx${ESC}[?25h`, "x"],
    ["a CSI with an intermediate", `${ESC}[2 qx`, "x"],
    ["a cursor movement", `a${ESC}[2Ab${ESC}[10;10Hc`, "abc"],
    ["a clear screen", `${ESC}[2Jx`, "x"],
    ["a CSI of one C1 character", "\x9b31mred\x9b0m", "red"],
    ["a title that ends with BEL", `${ESC}]0;title${BEL}x`, "x"],
    ["a title that ends with ST", `${ESC}]0;title${ST}x`, "x"],
    ["a link that ends with BEL", `${ESC}]8;;https://a.b/c${BEL}text${ESC}]8;;${BEL}!`, "text!"],
    ["a link that ends with ST", `${ESC}]8;;https://a.b/c${ST}text${ESC}]8;;${ST}!`, "text!"],
    ["a title without an end", `x${ESC}]0;title`, "x"],
    ["a device control string", `${ESC}P1$r0m${ST}x`, "x"],
    ["an application command", `${ESC}_payload${ST}x`, "x"],
    ["a privacy message", `${ESC}^payload${ST}x`, "x"],
    ["a charset selection", `${ESC}(Bx`, "x"],
    ["a two-byte escape", `${ESC}7x${ESC}8${ESC}c`, "x"],
    ["many at once", `${ESC}[1m${ESC}[31m${ESC}[4mx${ESC}[0m`, "x"],
  ])("removes %s", (_, line, shown) => {
    expect(renderTerminalLine(line)).toBe(shown);
  });

  test.each([
    ["a carriage return goes to the first column", "Loading\rDone", "Doneing"],
    ["a shorter rewrite leaves the rest", "100%\r5", "500%"],
    ["several carriage returns are one", "abc\r\r\rX", "Xbc"],
    ["a carriage return at the end changes nothing", "abc\r", "abc"],
    ["a backspace goes one column back", "ab\bc", "ac"],
    ["a backspace stops at the first column", "a\b\b\bb", "b"],
    ["the spinner of a progress bar", "|\b/\b-\b\\\bok", "ok"],
    ["erase to the end of the line", `Loading\r${ESC}[Kok`, "ok"],
    ["erase to the end, spelled 0K", `Loading\r${ESC}[0Kok`, "ok"],
    ["erase to the end, behind the cursor only", `Loading\rLo${ESC}[K`, "Lo"],
    ["erase from the beginning up to the cursor", `Loading\rLo${ESC}[1K`, "   ding"],
    ["erase the whole line, the cursor stays", `Loading\rLo${ESC}[2Kx`, "  x"],
    ["erase by a C1 character", "Loading\r\x9bKok", "ok"],
    ["a character beyond the first plane is one column", "👍a\rb", "ba"],
  ])("acts as a terminal: %s", (_, line, shown) => {
    expect(renderTerminalLine(line)).toBe(shown);
  });

  test.each([
    ["NUL", "a\0b", "a\\x00b"],
    ["BEL", "a\x07b", "a\\x07b"],
    ["a line feed", "a\nb", "a\\x0ab"],
    ["vertical tab and form feed", "a\x0b\x0cb", "a\\x0b\\x0cb"],
    ["an ESC at the end", `a${ESC}`, "a\\x1b"],
    ["an unfinished CSI", `a${ESC}[31`, "a31"],
    ["DEL", "a\x7fb", "a\\x7fb"],
    ["C1 characters", "a\x85\x9db", "a\\x85\\x9db"],
    ["a soft hyphen", "a\u00adb", "a\\xadb"],
    ["right-to-left override", "a\u202eb", "a\\u{202e}b"],
    ["isolates", "\u2066a\u2069", "\\u{2066}a\\u{2069}"],
    ["the Arabic letter mark", "\u061ca", "\\u{61c}a"],
    ["zero-width space and joiner", "a\u200b\u200db", "a\\u{200b}\\u{200d}b"],
    ["a word joiner", "a\u2060b", "a\\u{2060}b"],
    ["a byte order mark", "\ufeffa", "\\u{feff}a"],
    ["a line separator", "a\u2028b", "a\\u{2028}b"],
    ["tag characters", "a\u{e0041}b", "a\\u{e0041}b"],
  ])("shows %s", (_, line, shown) => {
    expect(renderTerminalLine(line)).toBe(shown);
  });

  test("lets no control and no invisible character through", () => {
    const pieces = fc.oneof(
      fc.string({ unit: "binary", maxLength: 6 }),
      fc.constantFrom(ESC, BEL, ST, `${ESC}[`, `${ESC}]`, `${ESC}P`, "\x9b", "\x9d", "\r", "\b", "K", "m", "\\", ";"),
      fc.constantFrom("\u202e", "\u2066", "\u200b", "\ufeff", "\u061c", "\x85", "\0", "\t", "\n", "a", "31"),
    );
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 14 }), (line) => {
        expect(renderTerminalLine(line.join(""))).not.toMatch(UNSAFE);
      }),
      { numRuns: 3000 },
    );
  });
});

describe("makeVisible", () => {
  test("shows every control character but tab, whatever sequence it belongs to", () => {
    expect(makeVisible(`a\t${ESC}[31m\r\b${BEL}\x9b`)).toBe("a\t\\x1b[31m\\x0d\\x08\\x07\\x9b");
  });

  test("leaves nothing unsafe", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 30 }), (text) => {
        expect(makeVisible(text)).not.toMatch(UNSAFE);
      }),
    );
  });
});
