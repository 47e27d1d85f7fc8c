import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { isRunId, makeRunId, runIdTimeMs, suffixOf } from "../../src/store/run-id.ts";

const MOMENT = Date.UTC(2026, 7, 28, 14, 3, 12, 417) * 1000;
const ID = "run_20260828T140312.417000Z-a1b2c3d4";

describe("makeRunId", () => {
  test("writes the time in UTC to the microsecond, and 8 hex digits", () => {
    expect(makeRunId(MOMENT + 5, "1 2")).toMatch(/^run_20260828T140312\.417005Z-[0-9a-f]{8}$/);
    expect(makeRunId(Date.UTC(2027, 0, 1) * 1000, "1 2")).toMatch(/^run_20270101T000000\.000000Z-/);
  });

  test("makes 10,000 different ids, and 10,000 different suffixes but for a rare pair", () => {
    const ids = Array.from({ length: 10_000 }, (_, i) => makeRunId(MOMENT + (i >> 3), `4711 ${i * 137}`));
    expect(new Set(ids).size).toBe(10_000);
    expect(new Set(ids.map(suffixOf)).size).toBeGreaterThan(9_990);
    expect(ids.filter((id) => !isRunId(id))).toEqual([]);
  });

  test("makes different ids for two brokers in the same microsecond", () => {
    expect(makeRunId(MOMENT, "1 5")).not.toBe(makeRunId(MOMENT, "2 5"));
    expect(makeRunId(MOMENT, "1 5")).not.toBe(makeRunId(MOMENT, "1 6"));
  });

  test("makes ids that sort by time as text", () => {
    const moment = fc
      .integer({ min: 0, max: Date.UTC(2200, 0, 1) })
      .chain((ms) => fc.nat({ max: 999 }).map((us) => ms * 1000 + us));
    fc.assert(
      fc.property(moment, moment, (a, b) => {
        fc.pre(a !== b);
        expect(makeRunId(a, "x") < makeRunId(b, "x")).toBe(a < b);
      }),
      { numRuns: 1000 },
    );
  });
});

describe("isRunId", () => {
  test("knows an id", () => {
    expect(isRunId(ID)).toBe(true);
  });

  test.each([
    "",
    "latest",
    "a1b2c3d4",
    "run_",
    ID.slice(0, -1),
    `${ID}0`,
    `${ID} `,
    `${ID}\n`,
    ` ${ID}`,
    ID.toUpperCase(),
    ID.replace("run_", "ruN_"),
    ID.replace("T", "t"),
    ID.replace("Z", "z"),
    ID.replace(".", ","),
    ID.replace("-", "_"),
    ID.replace("a1b2", "A1B2"),
    ID.replace("a1b2", "g1b2"),
    ID.replace("2026", "２026"),
    ID.replace("a1b2c3d4", "../../x/"),
    `${ID}/..`,
  ])("does not take %p for one", (text) => {
    expect(isRunId(text)).toBe(false);
    expect(runIdTimeMs(text)).toBeNull();
  });
});

describe("runIdTimeMs", () => {
  test("gives the milliseconds that an id was made in", () => {
    expect(runIdTimeMs(ID)).toBe(MOMENT / 1000);
    expect(runIdTimeMs(makeRunId(MOMENT + 999, "x"))).toBe(MOMENT / 1000);
  });

  test("has no time for an id whose date does not exist: run_20261399T000000.000000Z-00000000", () => {
    expect(runIdTimeMs("run_20261399T000000.000000Z-00000000")).toBeNull();
  });
});

test("suffixOf gives the last 8 digits", () => {
  expect(suffixOf(ID)).toBe("a1b2c3d4");
});
