import { beforeAll, describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type HotPath, readHotPath } from "../../scripts/hot-path.ts";

/** Each built-in costs start-up time: node:fs 1.2 ms at import and 0.8 ms at its first calls; node:child_process, node:crypto, node:tty 3 to 20 ms. */
const ALLOWED_EXTERNALS = ["bun:ffi"];
/** Touching these sets O_NONBLOCK on the caller's descriptors and costs 10 ms; console goes round our own writer. */
const FORBIDDEN_TEXT = /\bprocess\s*\.\s*(?:stdout|stderr|stdin)\b|\bconsole\s*\./;
const ROOT = join(import.meta.dir, "../..");
const LIST = "test/guards/hot-path.txt";

describe("the hot path", () => {
  let path: HotPath;
  beforeAll(async () => {
    path = await readHotPath();
  });

  test("has no package in it", () => {
    expect(path.inputs.filter((input) => input.includes("node_modules"))).toEqual([]);
  });

  test(`imports no built-in but ${ALLOWED_EXTERNALS.join(", ")}`, () => {
    expect(path.externals.filter((external) => !ALLOWED_EXTERNALS.includes(external))).toEqual([]);
  });

  test("does not touch the process streams or console", () => {
    const transpiler = new Bun.Transpiler({ loader: "ts" });
    const code = (input: string): string => transpiler.transformSync(readFileSync(join(ROOT, input), "utf8"));
    expect(path.inputs.filter((input) => input.startsWith("src/") && FORBIDDEN_TEXT.test(code(input)))).toEqual([]);
  });

  test(`is the list in ${LIST}; if the change is meant: bun scripts/generate.ts`, () => {
    const listed = existsSync(join(ROOT, LIST))
      ? readFileSync(join(ROOT, LIST), "utf8").split("\n").filter(Boolean)
      : [];
    expect(path.inputs).toEqual(listed);
  });
});
