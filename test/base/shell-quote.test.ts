import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { quoteArgument } from "../../src/base/shell-quote.ts";

/** What `sh` makes of the words of a command line. */
function wordsOf(line: string): string[] {
  const { stdout, stderr, exitCode } = Bun.spawnSync(["sh", "-c", `printf '%s\\0' ${line}`], { env: { HOME: "/h" } });
  expect({ exitCode, stderr: stderr.toString() }).toEqual({ exitCode: 0, stderr: "" });
  return stdout.toString("utf8").split("\0").slice(0, -1);
}

const text = fc
  .oneof(
    fc.string({ unit: "binary", maxLength: 12 }),
    fc.string({ unit: fc.constantFrom(..."'\"\\$`!*?[]{}()<>|&;#~ \t\n\r=-@a%"), maxLength: 12 }),
  )
  .map((value) => value.replaceAll("\0", "").toWellFormed());

describe("quoteArgument", () => {
  test("is read back by sh as the same argument", () => {
    fc.assert(
      fc.property(fc.array(text, { minLength: 1, maxLength: 200 }), (args) => {
        expect(wordsOf(args.map(quoteArgument).join(" "))).toEqual(args);
      }),
      { numRuns: 60 },
    );
  });

  test.each([
    ["", "''"],
    ["a b", "'a b'"],
    ["it's", "'it'\\''s'"],
    ["'", "''\\'''"],
    ["~", "'~'"],
    ["a\nb", "'a\nb'"],
    ["ä", "'ä'"],
  ])("quotes %p", (argument, quoted) => {
    expect(quoteArgument(argument)).toBe(quoted);
  });

  test.each(["a", "/usr/bin/env", "--flag=x", "a@b:c,d", "a1b2c3d4", "50%", "@1", "C++"])(
    "leaves %p as it is",
    (argument) => {
      expect(quoteArgument(argument)).toBe(argument);
    },
  );
});
