import { expect, test } from "bun:test";
import { findDrift } from "../../scripts/generate.ts";

test("generated files are those that `bun scripts/generate.ts` writes", async () => {
  expect(await findDrift()).toEqual([]);
});
