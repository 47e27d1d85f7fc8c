/**
 * What the tests of the edges need besides: runs with captured stdin, late output or a damaged disk are checked too, no
 * process of a test may outlive it, and a pseudo-terminal can be typed on.
 */
import { expect } from "bun:test";
import { existsSync, lstatSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Event } from "../../src/evidence/event.ts";
import type { Receipt } from "../../src/evidence/receipt.ts";
import {
  assertDocument,
  assertSound,
  type Options,
  type Outcome,
  readJournal,
  TestEnvironment,
} from "./test-environment.ts";
import { waitUntil } from "./wait-until.ts";

const FIXTURES = resolve(import.meta.dir, "../fixtures");

/** A test body in an environment of its own. Its runs must be sound at the end, and its processes gone. */
export function inEdges(body: (environment: EdgeEnvironment) => Promise<void> | void): () => Promise<void> {
  return async () => {
    const environment = new EdgeEnvironment();
    try {
      await body(environment);
      environment.assertAllSound();
      await environment.assertNothingLeft();
    } finally {
      environment.killProcesses();
      environment.remove();
    }
  };
}

export interface LivingProcess {
  pid: number;
  words: string[];
  /** Of /proc/PID/stat: `S`, `T`, `Z` and so on. */
  state: string;
}

/** A program that runs beside the test. */
export interface Started {
  pid: number;
  /** Resolves with how it ended: the exit code, or the signal's name. */
  ended: Promise<number | string>;
  signal(name: NodeJS.Signals): void;
  stdout: Promise<string>;
  stderr: Promise<string>;
}

export interface PtyStep {
  /** Wait until this text has appeared since the step before. */
  expect?: string;
  /** Wait until this file exists and is not empty. */
  exists?: string;
  type?: string;
  pauseMs?: number;
}

export interface PtyOutcome {
  output: string;
  /** Exit code, or minus the number of the signal. */
  status: number;
}

export class EdgeEnvironment extends TestEnvironment {
  /** False where a test damages or fills the store on purpose, and says itself what must hold. */
  checksRuns = true;

  override assertAllSound(): void {
    if (!this.checksRuns) return;
    for (const directory of this.runDirectories()) {
      if (this.unfinished.has(directory)) expect(existsSync(join(directory, "receipt.json"))).toBe(false);
      else assertEvidence(directory);
    }
  }

  /** `ashctl run OPTIONS -- ARGS` */
  runWith(options: readonly string[], args: readonly string[], settings?: Options) {
    return this.ashctl(["run", ...options, "--", ...args], settings);
  }

  /** Starts a bash script and returns at once. */
  startScript(script: string, options?: Options, ...words: string[]): Started {
    return this.start(["bash", "-c", script, "bash", ...words], options);
  }

  start(argv: readonly string[], { stdin, env, cwd = this.project }: Options = {}): Started {
    const child = Bun.spawn([...argv], {
      cwd,
      env: { ...this.variables, ...env },
      stdin: typeof stdin === "string" ? Buffer.from(stdin) : (stdin ?? "ignore"),
      stdout: "pipe",
      stderr: "pipe",
      timeout: 25_000,
      killSignal: "SIGKILL",
    });
    return {
      pid: child.pid,
      ended: child.exited.then((code) => child.signalCode ?? code),
      signal: (name) => child.kill(name),
      stdout: new Response(child.stdout).text(),
      stderr: new Response(child.stderr).text(),
    };
  }

  /** Runs `argv` on a pseudo-terminal of its own and takes the steps on it. */
  async onPty(argv: readonly string[], steps: readonly PtyStep[]): Promise<PtyOutcome> {
    const plan = this.write(`../pty-${Math.random()}.json`, JSON.stringify({ argv, steps }));
    const outcome = await this.spawn(["python3", join(FIXTURES, "pty-session.py"), plan]);
    if (outcome.code !== 0) throw new Error(`${outcome.stderr}${outcome.stdout}`);
    return JSON.parse(outcome.stdout) as PtyOutcome;
  }

  /** Path of a file in the project. */
  path(name: string): string {
    return join(this.project, name);
  }

  read(name: string): string {
    return readFileSync(this.path(name), "utf8");
  }

  async waitForFile(name: string): Promise<string> {
    await waitUntil(() => existsSync(this.path(name)) && this.read(name) !== "", `the file ${name}`);
    return this.read(name);
  }

  /** Every living process that was started in this environment, drainers included. Zombies count. */
  processes(): LivingProcess[] {
    const found: LivingProcess[] = [];
    for (const name of readdirSync("/proc")) {
      if (!/^\d+$/.test(name) || Number(name) === process.pid) continue;
      const words = readProc(name, "cmdline").split("\0").slice(0, -1);
      const state = /\) (\S)/.exec(readProc(name, "stat"))?.[1] ?? "";
      const isOurs =
        readProc(name, "environ").includes(`${this.root}/`) || words.some((word) => word.includes(this.root));
      if (isOurs && state !== "") found.push({ pid: Number(name), words, state });
    }
    return found;
  }

  /** Living processes with this first word. */
  named(argv0: string): LivingProcess[] {
    return this.processes().filter(({ words, state }) => words[0] === argv0 && state !== "Z");
  }

  async assertNothingLeft(): Promise<void> {
    const end = Date.now() + 5000;
    // In the moment of its exec a process shows neither words nor environment: nothing has to be seen several times.
    for (let clear = 0; clear < 3; await Bun.sleep(5)) {
      const left = this.processes();
      clear = left.length === 0 ? clear + 1 : 0;
      if (clear === 0 && Date.now() > end) expect(left).toEqual([]);
    }
  }

  /**
   * Runs the script, in which ash captures its stdin. On a busy machine the shell may close its own end too late, and
   * then stdin is inherited: that is right, and tried again.
   */
  async runCaptured(script: string, options?: Options): Promise<Outcome> {
    for (let tries = 0; tries < 20; tries += 1) {
      const outcome = await this.run(script, options);
      const directory = this.runDirectories().at(-1);
      if (directory === undefined || readEvidence(directory).receipt.stdin.kind === "captured") return outcome;
    }
    throw new Error(`stdin was never captured: ${script}`);
  }

  /** Ends what a test left behind, each by its id. */
  killProcesses(): void {
    for (const { pid } of this.processes()) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // It ended in this moment.
      }
    }
  }
}

function readProc(pid: string, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "latin1");
  } catch {
    // Gone, or another user's.
    return "";
  }
}

export const isAlive = (pid: number): boolean => /\) [^ZX]/.test(readProc(String(pid), "stat"));

const NAMES = ["stdin", "stdout", "stderr"] as const;

/** As `assertSound`, for runs with captured stdin and with late output as well. */
export function assertEvidence(directory: string): void {
  const { receipt, events } = readEvidence(directory);
  if (receipt.streams.stdin === null && !hasLateOutput(directory)) {
    assertSound(directory);
    return;
  }
  assertDocument("receipt", receipt);
  for (const event of events) assertDocument("event", event);
  for (const name of NAMES) {
    const record = receipt.streams[name];
    if (record === null) continue;
    const bytes = readFileSync(join(directory, `${name}.bin`));
    const sha256 = new Bun.CryptoHasher("sha256").update(bytes).digest("hex");
    expect({ name, ...record }).toMatchObject({ name, bytes: bytes.length, sha256 });
    expect([name, coveredBytes(events, name)]).toEqual([name, bytes.length]);
  }
  const logical = NAMES.reduce((sum, name) => sum + (receipt.streams[name]?.bytes ?? 0), 0);
  expect(receipt.storage).toMatchObject({ logical_bytes: logical, new_bytes: logical });
  expect(events[0]).toMatchObject({ type: "run_started", pid: receipt.pid });
  expect(events.at(-1)).toMatchObject({ type: "run_finalized", state: receipt.state });
  for (const file of readdirSync(directory)) {
    expect(["stdin.bin", "stdout.bin", "stderr.bin", "events.jsonl", "receipt.json", ...LATE]).toContain(file);
    // A drainer that still works has its files open for writing.
    const modes = LATE.includes(file) ? [0o400, 0o600] : [0o400];
    expect(modes).toContain(lstatSync(join(directory, file)).mode & 0o7777);
  }
  if (hasLateOutput(directory)) assertLate(directory);
}

const LATE = ["stdout.late.bin", "stderr.late.bin", "late.jsonl"];

export const hasLateOutput = (directory: string): boolean => LATE.some((name) => existsSync(join(directory, name)));

/** The journal of late output is one of events, and covers the late files. */
export function assertLate(directory: string): Event[] {
  const text = readFileSync(join(directory, "late.jsonl"), "utf8");
  const events = text
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Event);
  for (const event of events) assertDocument("event", event);
  for (const name of ["stdout", "stderr"] as const) {
    const path = join(directory, `${name}.late.bin`);
    const size = existsSync(path) ? lstatSync(path).size : 0;
    expect(coveredBytes(events, name)).toBeLessThanOrEqual(size);
    if (events.some((event) => event.type === "stream_end" && event.stream === name)) {
      expect([name, coveredBytes(events, name)]).toEqual([name, size]);
    }
  }
  return events;
}

/** How far the chunks of a stream reach, which must be without a gap. */
export function coveredBytes(events: readonly Event[], stream: string): number {
  let offset = 0;
  for (const event of events) {
    if (event.type !== "chunk" || event.stream !== stream) continue;
    expect([stream, event.offset]).toEqual([stream, offset]);
    offset += event.bytes;
  }
  return offset;
}

export function readEvidence(directory: string): { receipt: Receipt; events: Event[] } {
  const path = join(directory, "receipt.json");
  if (!existsSync(path)) throw new Error(`${directory} has no receipt`);
  return { receipt: JSON.parse(readFileSync(path, "utf8")) as Receipt, events: readJournal(directory) };
}

/** What a promise gives, and how long it took. */
export async function timed<T>(action: Promise<T>): Promise<{ value: T; ms: number }> {
  const start = Bun.nanoseconds();
  const value = await action;
  return { value, ms: (Bun.nanoseconds() - start) / 1e6 };
}
