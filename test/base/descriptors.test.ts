import { expect, test } from "bun:test";
import { closeSync, openSync } from "node:fs";
import { isClosedAtStart, isTerminal } from "../../src/base/descriptors.ts";

test("isTerminal is true for no file, device or closed descriptor", () => {
  for (const path of ["/dev/null", "/proc/self/stat"]) {
    const fd = openSync(path, "r");
    expect(isTerminal(fd)).toBe(false);
    closeSync(fd);
  }
  expect(isTerminal(99_999)).toBe(false);
});

test("isTerminal is true for a pseudo-terminal", () => {
  const fd = openSync("/dev/ptmx", "r+");
  expect(isTerminal(fd)).toBe(true);
  closeSync(fd);
});

test("isClosedAtStart is true for what cannot have come through exec: a close-on-exec descriptor, and one that is not open", () => {
  const fd = openSync("/dev/null", "r");
  expect([isClosedAtStart(fd), isClosedAtStart(99_999), isClosedAtStart(2)]).toEqual([true, true, false]);
  closeSync(fd);
});
