import { describe, expect, test } from "bun:test";
import { constants } from "node:os";
import { signalName, signalNumber } from "../../src/base/signals.ts";

describe("signals", () => {
  test.skipIf(process.platform !== "linux")("have the numbers that the system gives them", () => {
    for (const [name, number] of Object.entries(constants.signals)) {
      // Older names of the same signals.
      if (["SIGIOT", "SIGPOLL", "SIGUNUSED"].includes(name)) continue;
      expect([name, signalNumber(name)]).toEqual([name, number]);
      expect([number, signalName(number)]).toEqual([number, name]);
    }
  });

  test("that have no name keep their number, there and back", () => {
    for (let number = 1; number <= 64; number += 1) expect(signalNumber(signalName(number))).toBe(number);
    expect(signalName(34)).toBe("SIG34");
    expect(signalName(64)).toBe("SIG64");
  });

  test("are found without SIG before the name, and by number", () => {
    expect(signalNumber("TERM")).toBe(15);
    expect(signalNumber("9")).toBe(9);
  });

  test.each(["", "SIG", "SIG0", "0", "65", "SIG65", "-1", "SIGFOO", "term", "SIGSIGTERM", "1.5", " 9", "TERM "])(
    "are not found as %p",
    (name) => {
      expect(signalNumber(name)).toBeNull();
    },
  );
});
