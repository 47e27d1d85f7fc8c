/**
 * Looks at the process tree from time to time: the first time after FIRST_MS, then at growing intervals up to a
 * second. A run of any length gives at most about 2,000 samples.
 */
import type { Measure } from "../evidence/receipt.ts";
import type { Loop, Timer } from "./launcher.ts";
import type { ProcessControl } from "./process-control.ts";
import type { Sample } from "./sample.ts";

const FIRST_MS = 2;
const LONGEST_MS = 1000;
/** After this many samples the interval doubles, and again after every further quarter. */
const STRETCH_AFTER = 1000;
const MAX_SAMPLES = 2000;

export class Sampler {
  private readonly loop: Loop;
  private readonly control: ProcessControl;
  private readonly fixedMs: number | null;
  private readonly onSample: (sample: Sample) => void;
  private timer: Timer | null = null;
  private count = 0;
  private intervalMs = FIRST_MS;
  private processPeak: number | null = null;
  private treePeak: number | null = null;

  constructor(
    { loop, control }: { loop: Loop; control: ProcessControl },
    fixedMs: number | null,
    onSample: (sample: Sample) => void,
  ) {
    this.loop = loop;
    this.control = control;
    this.fixedMs = fixedMs;
    this.onSample = onSample;
  }

  start(): void {
    this.timer = this.loop.after(this.fixedMs ?? FIRST_MS, () => this.tick());
  }

  stop(): void {
    this.timer?.cancel();
    this.timer = null;
  }

  /** Highest VmHWM of one process that was seen; null without a sample. */
  get processPeakBytes(): number | null {
    return this.processPeak;
  }

  treeMeasure(): Measure {
    if (this.treePeak === null) return { value: null, quality: "unavailable", source: null };
    return { value: this.treePeak, quality: "sampled", source: this.control.memorySource };
  }

  private tick(): void {
    this.take();
    this.count += 1;
    if (this.count >= MAX_SAMPLES) return;
    this.timer = this.loop.after(this.nextInterval(), () => this.tick());
  }

  private nextInterval(): number {
    const stretch = this.count < STRETCH_AFTER ? 1 : 2 ** (1 + Math.floor((this.count - STRETCH_AFTER) / 250));
    if (this.fixedMs !== null) return this.fixedMs * stretch;
    this.intervalMs = Math.min(LONGEST_MS, this.intervalMs * 2);
    return this.intervalMs * stretch;
  }

  private take(): void {
    this.control.sample((sample) => {
      // An answer that comes after the end tells nothing of the run.
      if (this.timer === null) return;
      if (sample.peak_bytes !== null) {
        this.processPeak = Math.max(this.processPeak ?? 0, sample.peak_bytes);
        this.treePeak = Math.max(this.treePeak ?? 0, sample.rss_bytes);
      }
      this.onSample(sample);
    });
  }
}
