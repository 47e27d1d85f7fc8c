import { describe, expect, test } from "bun:test";
import { ERROR_CODES } from "../../src/base/errors.ts";
import {
  EXIT_BROKER,
  EXIT_BY_ERROR,
  EXIT_CANNOT_EXECUTE,
  EXIT_NOT_FOUND,
  EXIT_TIMED_OUT,
} from "../../src/base/exit-codes.ts";

describe("exit codes", () => {
  test("of a start that failed are those of env, nohup and timeout", () => {
    expect([EXIT_TIMED_OUT, EXIT_BROKER, EXIT_CANNOT_EXECUTE, EXIT_NOT_FOUND]).toEqual([124, 125, 126, 127]);
  });

  test("are there for every error, and never say success", () => {
    expect(Object.keys(EXIT_BY_ERROR).sort()).toEqual([...ERROR_CODES].sort());
    for (const code of ERROR_CODES) expect([code, EXIT_BY_ERROR[code] > 0]).toEqual([code, true]);
  });

  test("tell a wrong command line, something that is not there, and a bug apart", () => {
    expect([EXIT_BY_ERROR.usage, EXIT_BY_ERROR.run_not_found, EXIT_BY_ERROR.internal]).toEqual([2, 3, 70]);
  });
});
