import { describe, expect, test } from "bun:test";
import { Timers } from "../../src/run/timers.ts";

const DAY_MS = 86_400_000;

/** Runs timers until `done`, without a clock of our own: `untilNext` says how long nothing is due. */
function runUntil(timers: Timers, done: () => boolean): void {
  for (let i = 0; !done(); i += 1) {
    if (i > 1e8) throw new Error("nothing became due");
    timers.run();
  }
}

describe("timers", () => {
  test("run once when they are due, and not before", () => {
    const timers = new Timers();
    const fired: string[] = [];
    const start = performance.now();
    timers.after(5, () => fired.push("five"));
    timers.run();
    expect(fired).toEqual([]);
    runUntil(timers, () => fired.length > 0);
    expect(performance.now() - start).toBeGreaterThanOrEqual(4.9);
    timers.run();
    expect(fired).toEqual(["five"]);
    expect(timers.untilNext()).toBeNull();
  });

  test("of 30 days do not fire at once, as they would in 32 bits of milliseconds", () => {
    const timers = new Timers();
    let fired = false;
    timers.after(30 * DAY_MS, () => {
      fired = true;
    });
    timers.run();
    expect(fired).toBe(false);
    expect(timers.untilNext()).toBeGreaterThan(29.9 * DAY_MS);
    expect(timers.untilNext()).toBeLessThanOrEqual(30 * DAY_MS);
  });

  test("that are cancelled do not run, also more than once and after they have run", () => {
    const timers = new Timers();
    const fired: string[] = [];
    const cancelled = timers.after(0, () => fired.push("cancelled"));
    const kept = timers.after(0, () => fired.push("kept"));
    cancelled.cancel();
    cancelled.cancel();
    timers.run();
    kept.cancel();
    timers.run();
    expect(fired).toEqual(["kept"]);
  });

  test("tell the time until the first of them, rounded up, and never less than nothing", () => {
    const timers = new Timers();
    expect(timers.untilNext()).toBeNull();
    timers.after(5000, () => {});
    timers.after(1000, () => {});
    const next = timers.untilNext()!;
    expect([Number.isInteger(next), next > 900, next <= 1000]).toEqual([true, true, true]);
    timers.after(-5, () => {});
    expect(timers.untilNext()).toBe(0);
  });

  test("that an action adds wait for the next run, so that one run ends", () => {
    const timers = new Timers();
    let runs = 0;
    const again = () => {
      runs += 1;
      timers.after(0, again);
    };
    timers.after(0, again);
    timers.run();
    expect(runs).toBe(1);
    timers.run();
    expect(runs).toBe(2);
  });

  test("with the same deadline run in the order in which they were made", () => {
    const timers = new Timers();
    const fired: number[] = [];
    for (const n of [1, 2, 3]) timers.after(0, () => fired.push(n));
    timers.run();
    expect(fired).toEqual([1, 2, 3]);
  });

  test("run in the order of their deadlines: after(-1), after(-2)", () => {
    const timers = new Timers();
    const fired: number[] = [];
    timers.after(-1, () => fired.push(-1));
    timers.after(-2, () => fired.push(-2));
    timers.run();
    expect(fired).toEqual([-2, -1]);
  });

  test("that an action of the same run cancels do not run any more", () => {
    const timers = new Timers();
    const fired: string[] = [];
    timers.after(0, () => second.cancel());
    const second = timers.after(0, () => fired.push("second"));
    timers.run();
    expect(fired).toEqual([]);
  });
});
