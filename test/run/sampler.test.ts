import { describe, expect, test } from "bun:test";
import type { Loop } from "../../src/run/launcher.ts";
import type { ProcessControl } from "../../src/run/process-control.ts";
import type { Sample } from "../../src/run/sample.ts";
import { Sampler } from "../../src/run/sampler.ts";

/** Time that passes only when it is told to. Remembers how long each timer was to wait. */
class FakeLoop implements Loop {
  readonly waits: number[] = [];
  private action: (() => void) | null = null;

  after(ms: number, action: () => void) {
    this.waits.push(ms);
    this.action = action;
    return {
      cancel: () => {
        if (this.action === action) this.action = null;
      },
    };
  }

  /** Fires the timer that waits. False when there is none. */
  fire(): boolean {
    const action = this.action;
    this.action = null;
    action?.();
    return action !== null;
  }

  watchWritable(): void {}
  unwatch(): void {}
  async turn(): Promise<void> {}
}

const SAMPLE: Sample = { processes: 1, threads: 1, rss_bytes: 100, peak_bytes: 120, cpu_ms: 0 };

/** A sampler over a tree that looks like `sample`; null for a tree that is gone. */
function sampling(fixedMs: number | null, sample: (n: number) => Sample | null = () => SAMPLE) {
  const loop = new FakeLoop();
  const seen: Sample[] = [];
  let looks = 0;
  const control: Pick<ProcessControl, "sample" | "memorySource"> = {
    memorySource: "VmRSS",
    sample(report) {
      const one = sample(looks);
      looks += 1;
      if (one !== null) report(one);
    },
  };
  const sampler = new Sampler({ loop, control: control as ProcessControl }, fixedMs, (one) => seen.push(one));
  return { loop, sampler, seen, looks: () => looks };
}

describe("a sampler", () => {
  test("looks after 2 ms, then at intervals that double up to a second", () => {
    const { loop, sampler } = sampling(null);
    sampler.start();
    for (let i = 0; i < 13; i += 1) loop.fire();
    expect(loop.waits).toEqual([2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000, 1000, 1000, 1000]);
  });

  test.each([null, 1, 50])("takes at most 2,000 samples in any time (fixed: %p)", (fixedMs) => {
    const { loop, sampler, seen } = sampling(fixedMs);
    sampler.start();
    for (let i = 0; i < 5000 && loop.fire(); i += 1);
    expect(seen).toHaveLength(2000);
    expect(loop.fire()).toBe(false);
  });

  test("keeps a fixed interval for the first 1,000 samples, then it grows", () => {
    const { loop, sampler } = sampling(50);
    sampler.start();
    while (loop.fire());
    expect(loop.waits.slice(0, 1000)).toEqual(Array(1000).fill(50));
    expect([1000, 1249, 1250, 1500, 1750, 1999].map((n) => loop.waits[n])).toEqual([100, 100, 200, 400, 800, 800]);
  });

  test("never looks more often as time goes on", () => {
    const { loop, sampler } = sampling(null);
    sampler.start();
    while (loop.fire());
    expect(loop.waits).toEqual([...loop.waits].sort((a, b) => a - b));
  });

  test("keeps the highest process and the highest sum of one sample", () => {
    const rss = [100, 300, 200];
    const peaks = [120, 310, 500];
    const { loop, sampler } = sampling(1, (n) => ({ ...SAMPLE, rss_bytes: rss[n] ?? 1, peak_bytes: peaks[n] ?? 1 }));
    sampler.start();
    for (let i = 0; i < 4; i += 1) loop.fire();
    expect(sampler.processPeakBytes).toBe(500);
    expect(sampler.treeMeasure()).toEqual({ value: 300, quality: "sampled", source: "VmRSS" });
  });

  test("has no figure before it has seen a process whose memory can be read", () => {
    const { loop, sampler, seen } = sampling(1, () => ({ ...SAMPLE, peak_bytes: null, rss_bytes: 0 }));
    sampler.start();
    loop.fire();
    expect(seen).toHaveLength(1);
    expect(sampler.processPeakBytes).toBeNull();
    expect(sampler.treeMeasure()).toEqual({ value: null, quality: "unavailable", source: null });
  });

  test("reports nothing of a tree that is gone, and goes on looking", () => {
    const { loop, sampler, seen, looks } = sampling(1, (n) => (n < 3 ? null : SAMPLE));
    sampler.start();
    for (let i = 0; i < 5; i += 1) loop.fire();
    expect([looks(), seen.length]).toEqual([5, 2]);
  });

  test("that is stopped does not look any more", () => {
    const { loop, sampler, seen } = sampling(1);
    sampler.start();
    loop.fire();
    sampler.stop();
    sampler.stop();
    expect(loop.fire()).toBe(false);
    expect(seen).toHaveLength(1);
  });

  test("takes no answer that comes after it was stopped", () => {
    const loop = new FakeLoop();
    let late: (sample: Sample) => void = () => {};
    const control = { memorySource: "ps", sample: (report: (sample: Sample) => void) => (late = report) };
    const seen: Sample[] = [];
    const sampler = new Sampler({ loop, control: control as unknown as ProcessControl }, 1, (one) => seen.push(one));
    sampler.start();
    loop.fire();
    sampler.stop();
    late(SAMPLE);
    expect([seen.length, sampler.processPeakBytes]).toEqual([0, null]);
  });
});
