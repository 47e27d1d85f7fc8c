import { describe, expect, test } from "bun:test";
import { formatAge, formatBytes, formatDuration, parseCount } from "../../src/base/units.ts";

const KIB = 1024;
const MIB = KIB * 1024;
const GIB = MIB * 1024;
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

describe("formatBytes", () => {
  test.each([
    [0, "0B"],
    [812, "812B"],
    [1023, "1023B"],
    [KIB, "1.0KiB"],
    [1536, "1.5KiB"],
    [190_874, "186.4KiB"],
    [MIB, "1.0MiB"],
    [43_831_296, "41.8MiB"],
    [GIB, "1.0GiB"],
    [1024 * GIB, "1.0TiB"],
    [5000 * 1024 * GIB, "5000.0TiB"],
  ])("gives %p in the largest unit below it", (bytes, text) => {
    expect(formatBytes(bytes)).toBe(text);
  });

  test("never shows 1024 of a unit: 1048575", () => {
    expect(formatBytes(MIB - 1)).toBe("1.0MiB");
  });
});

describe("formatDuration", () => {
  test.each([
    [0, "0ms"],
    [0.04, "0ms"],
    [0.25, "0.3ms"],
    [9.94, "9.9ms"],
    [9.96, "10ms"],
    [10.4, "10ms"],
    [284.4, "284ms"],
    [999.4, "999ms"],
    [999.5, "1.000s"],
    [1842, "1.842s"],
    [59_999.4, "59.999s"],
    [59_999.5, "1m00s"],
    [MINUTE, "1m00s"],
    [2 * MINUTE + 4 * SECOND, "2m04s"],
    [HOUR - 501, "59m59s"],
    [HOUR - 500, "1h00m"],
    [HOUR + 2 * MINUTE, "1h02m"],
    [DAY - 501, "23h59m"],
    [DAY - 500, "1d00h"],
    [3 * DAY + 4 * HOUR, "3d04h"],
    [400 * DAY, "400d00h"],
  ])("gives %p ms as people read it", (ms, text) => {
    expect(formatDuration(ms)).toBe(text);
  });

  test("never shows 60 seconds, 60 minutes or 24 hours", () => {
    const wrong: string[] = [];
    for (const unit of [SECOND, MINUTE, HOUR, DAY]) {
      for (const count of [1, 2, 23, 24, 59, 60]) {
        for (let off = -600; off <= 600; off += 0.5) {
          const text = formatDuration(unit * count + off);
          if (/\b60s|m60s|h60m|d24h|^1000ms|^60\./.test(text)) wrong.push(text);
        }
      }
    }
    expect(wrong).toEqual([]);
  });
});

describe("formatAge", () => {
  test.each([
    [-5, "0s"],
    [0, "0s"],
    [999, "0s"],
    [38_012, "38s"],
    [MINUTE - 1, "59s"],
    [MINUTE, "1m"],
    [HOUR - 1, "59m"],
    [HOUR, "1h"],
    [DAY - 1, "23h"],
    [DAY, "1d"],
    [1000 * DAY, "1000d"],
  ])("gives %p ms in its largest whole unit, never more than has passed", (ms, text) => {
    expect(formatAge(ms)).toBe(text);
  });
});

describe("parseCount", () => {
  test.each([
    ["0", 0],
    ["007", 7],
    ["999999999999999", 999_999_999_999_999],
  ])("reads %p exactly", (text, count) => {
    expect(parseCount(text)).toBe(count);
  });

  test.each(["", " 1", "1 ", "+1", "-1", "1.0", "1e3", "0x1", "1_000", "9999999999999999", "١", "1\n"])(
    "refuses %p",
    (text) => {
      expect(parseCount(text)).toBeNull();
    },
  );
});
