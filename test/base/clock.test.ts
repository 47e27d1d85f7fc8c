import { describe, expect, test } from "bun:test";
import { formatTime, monotonicNs, wallMicroseconds, wallMs } from "../../src/base/clock.ts";

describe("clock", () => {
  test("never goes back, and has finer steps than a millisecond", () => {
    let last = monotonicNs();
    let smallest = Number.POSITIVE_INFINITY;
    for (let i = 0; i < 10_000; i += 1) {
      const now = monotonicNs();
      expect(now).toBeGreaterThanOrEqual(last);
      if (now > last) smallest = Math.min(smallest, now - last);
      last = now;
    }
    expect(smallest).toBeLessThan(1e6);
  });

  test("tells the time of day in whole milliseconds and whole microseconds", () => {
    const before = Date.now();
    const [ms, us] = [wallMs(), wallMicroseconds()];
    expect(ms).toBeGreaterThanOrEqual(before);
    expect(Number.isInteger(us)).toBe(true);
    // Two clocks of the runtime, one of which a change of the system's clock does not move.
    expect(Math.abs(us / 1000 - ms)).toBeLessThan(60_000);
  });

  test("writes RFC 3339 in UTC with milliseconds", () => {
    expect(formatTime(0)).toBe("1970-01-01T00:00:00.000Z");
    expect(formatTime(Date.UTC(2026, 7, 28, 14, 3, 12, 417))).toBe("2026-08-28T14:03:12.417Z");
  });
});
