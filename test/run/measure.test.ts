import { describe, expect, test } from "bun:test";
import { cpuOf, processPeak } from "../../src/run/measure.ts";

describe("processPeak", () => {
  test.each([
    ["exact above our own peak", [200, 100, 150], [200, "exact", "ru_maxrss"]],
    ["exact above our own peak, though a sample is higher", [200, 100, 250], [200, "exact", "ru_maxrss"]],
    ["sampled at our own peak", [100, 100, 40], [40, "sampled", "VmHWM"]],
    ["sampled below our own peak", [90, 100, 40], [40, "sampled", "VmHWM"]],
    ["an upper bound without a sample", [100, 100, null], [100, "upper_bound", "ru_maxrss"]],
    ["an upper bound when our own peak is unknown", [100, null, null], [100, "upper_bound", "ru_maxrss"]],
    ["sampled when our own peak is unknown", [100, null, 40], [40, "sampled", "VmHWM"]],
    ["sampled without the kernel's figure", [null, 100, 40], [40, "sampled", "VmHWM"]],
    ["unavailable without anything", [null, null, null], [null, "unavailable", null]],
    ["unavailable when only our own peak is known", [null, 100, null], [null, "unavailable", null]],
    ["a sample of nothing is a sample", [null, null, 0], [0, "sampled", "VmHWM"]],
  ] as const)("is %s", (_, [maxRss, floor, sampled], [value, quality, source]) => {
    expect(processPeak(maxRss, floor, sampled, "VmHWM")).toEqual({ value, quality, source });
  });
});

describe("cpuOf", () => {
  test.each([
    [371.204, 60.118, 512.384, 84.2],
    [0, 0, 100, 0],
    [300, 100, 100, 400],
    [0.05, 0, 100, 0.1],
  ])("gives the share of %p and %p ms in %p ms of time", (user, system, wall, percent) => {
    expect(cpuOf(user, system, wall, false)).toEqual({ user_ms: user, system_ms: system, percent, partial: false });
  });

  test("has no share of no time, and tells what is missing", () => {
    expect(cpuOf(1, 2, 0, true)).toEqual({ user_ms: 1, system_ms: 2, percent: null, partial: true });
  });
});
