import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { AshError, errorReason, isErrno } from "../../src/base/errors.ts";
import { thrownBy } from "../helpers/thrown.ts";

const missing = thrownBy(() => readFileSync("/no/such/file"));

describe("isErrno", () => {
  test("knows an error of the system, and which one", () => {
    expect(isErrno(missing)).toBe(true);
    expect(isErrno(missing, "ENOENT")).toBe(true);
    expect(isErrno(missing, "EACCES")).toBe(false);
  });

  test.each([
    ["an error without a code", new Error("ENOENT")],
    ["an error of ours", new AshError("usage", "no")],
    ["an error with a number", Object.assign(new Error(), { code: 2 })],
    ["what only looks like an error", { code: "ENOENT" }],
    ["a string", "ENOENT"],
    ["null", null],
    ["undefined", undefined],
  ])("does not take %s for one", (_, error) => {
    expect(isErrno(error)).toBe(false);
  });
});

describe("errorReason", () => {
  test("is the name of the errno, else the text", () => {
    expect(errorReason(missing)).toBe("ENOENT");
    expect(errorReason(new Error("out of ideas"))).toBe("out of ideas");
    expect(errorReason("plain")).toBe("plain");
    expect(errorReason(undefined)).toBe("undefined");
  });
});

describe("AshError", () => {
  test("carries its code, its hint and its cause", () => {
    const error = new AshError("run_not_found", "there is no run 'x'", { hint: "see: ashctl list", cause: missing });
    expect(error).toBeInstanceOf(Error);
    expect({ ...error, message: error.message, cause: error.cause as unknown }).toMatchObject({
      code: "run_not_found",
      message: "there is no run 'x'",
      hint: "see: ashctl list",
      cause: missing,
    });
  });

  test("has null for no hint, and no cause where none was given", () => {
    const error = new AshError("internal", "broken");
    expect(error.hint).toBeNull();
    expect("cause" in error).toBe(false);
  });
});
