/** What is kept of a run's output, and what is measured: exact bytes in observed order, whatever the child does. */
import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { ASH, inEnvironment, readJournal, SAY, type TestEnvironment } from "../helpers/test-environment.ts";
import { waitUntil } from "../helpers/wait-until.ts";

const MIB = 1 << 20;

/** For what takes some seconds on an idle machine. */
const LONG_MS = 90_000;

/** Short runs by two loops at once, each with a megabyte behind which the child ends at once. */
async function runMany(environment: TestEnvironment, runs: number): Promise<void> {
  const loop = `for i in $(seq ${runs / 2}); do ash head -c 1000000 /dev/zero >/dev/null || echo failed; done`;
  const loops = [0, 1].map(() => environment.run(loop, { patienceMs: LONG_MS }));
  expect(await Promise.all(loops)).toEqual(Array(2).fill({ stdout: "", stderr: "", code: 0, signal: null }));
  const kept = environment.runs().map(({ receipt }) => receipt.streams.stdout!);
  expect(kept).toHaveLength(runs);
  const wrong = kept.filter(({ bytes, ended, complete }) => bytes !== 1_000_000 || ended !== "eof" || !complete);
  expect(wrong).toEqual([]);
}

/** Whether the process lives; a zombie does not. */
function isAlive(pid: number): boolean {
  if (!existsSync(`/proc/${pid}/stat`)) return false;
  return !/^\d+ \(.*\) Z/s.test(readFileSync(`/proc/${pid}/stat`, "latin1"));
}

function kill(pid: number): void {
  if (isAlive(pid)) process.kill(pid, "SIGKILL");
}

describe("the output", () => {
  test(
    "of a child that ends at once is whole and never held open: 200 times head -c 1000000",
    inEnvironment((environment) => runMany(environment, 200)),
    LONG_MS,
  );

  test(
    "is so on a busy machine as well: with 4 processes that take all processors",
    inEnvironment(async (environment) => {
      const burners = Array.from({ length: 4 }, () => Bun.spawn(["sh", "-c", "while :; do :; done"]));
      try {
        await runMany(environment, 60);
      } finally {
        for (const burner of burners) burner.kill("SIGKILL");
      }
    }),
    LONG_MS,
  );

  test(
    "of a flood is exact: yes | head -c 200M",
    inEnvironment(async (environment) => {
      const flood = `yes | head -c ${200 * MIB}`;
      const bare = await environment.run(`${flood} | sha256sum`);
      expect((await environment.ash(["sh", "-c", flood])).code).toBe(0);
      const { receipt, directory } = environment.lastRun();
      expect(receipt.streams.stdout).toMatchObject({ bytes: 200 * MIB, lines: 100 * MIB, ended: "eof" });
      expect(`${receipt.streams.stdout!.sha256}  -\n`).toBe(bare.stdout);
      expect(statSync(join(directory, "events.jsonl")).size).toBeLessThan(MIB);
    }),
  );

  test(
    "of two streams at once is exact: 50 MB each",
    inEnvironment(async (environment) => {
      const script = "head -c 50000000 /dev/zero & head -c 50000000 /dev/zero | tr '\\0' x >&2; wait";
      expect((await environment.ash(["sh", "-c", script])).code).toBe(0);
      const { stdout, stderr } = environment.lastRun();
      expect(stdout.equals(Buffer.alloc(50_000_000))).toBe(true);
      expect(stderr.equals(Buffer.alloc(50_000_000, "x"))).toBe(true);
    }),
  );

  test(
    "in 200,000 writes of 20 bytes needs a journal of less than the output and 64 KiB",
    inEnvironment(async (environment) => {
      const program = "import os\nfor i in range(200000): os.write(1, b'%019d\\n' % i)";
      expect((await environment.ash(["python3", "-c", program])).code).toBe(0);
      const { stdout, directory } = environment.lastRun();
      expect(stdout.length).toBe(4_000_000);
      expect(stdout.subarray(-20).toString()).toBe("0000000000000199999\n");
      expect(statSync(join(directory, "events.jsonl")).size).toBeLessThan(stdout.length + 64 * 1024);
    }),
  );

  test(
    "in 20,000 writes of one byte to either stream in turn needs a journal of less than the output and 64 KiB",
    inEnvironment(async (environment) => {
      const program = "import os\nfor i in range(20000): os.write(1 + i % 2, b'%d' % (i % 10))";
      expect((await environment.ash(["python3", "-c", program])).code).toBe(0);
      const { stdout, stderr, directory } = environment.lastRun();
      expect([stdout.toString(), stderr.toString()]).toEqual(["02468".repeat(2000), "13579".repeat(2000)]);
      expect(statSync(join(directory, "events.jsonl")).size).toBeLessThan(20_000 + 64 * 1024);
    }),
  );

  test(
    "in writes of one byte needs chunk events of less than the output and 40 KiB, however often samples are taken",
    inEnvironment(async (environment) => {
      const program = `import os,time
for i in range(4000):
    os.write(1 + i % 2, b'x')
    if i > 3000: time.sleep(.0003)`;
      await environment.ashctl(["run", "--sample-ms", "1", "--", "python3", "-c", program]);
      const { events } = environment.lastRun();
      const chunks = events.filter(({ type }) => type === "chunk");
      expect(chunks.reduce((sum, event) => sum + JSON.stringify(event).length + 1, 0)).toBeLessThan(4000 + 40 * 1024);
    }),
  );

  test(
    "is in the journal in the order it was seen",
    inEnvironment(async (environment) => {
      const program = `${SAY}for i in range(20): say(1 + i % 2, b'x' * (i + 1))`;
      await environment.ash(["python3", "-c", program]);
      const chunks = environment.lastRun().events.filter((event) => event.type === "chunk");
      expect(chunks.map(({ stream, bytes }) => [stream, bytes])).toEqual(
        Array.from({ length: 20 }, (_, i) => [i % 2 === 0 ? "stdout" : "stderr", i + 1]),
      );
    }),
  );

  test(
    "grows in its files while the child runs, and the journal follows within moments",
    inEnvironment(async (environment) => {
      const go = join(environment.project, "go");
      const running = environment.ash([
        "sh",
        "-c",
        "echo one; echo two >&2; until [ -e go ]; do sleep 0.01; done; echo three",
      ]);
      const [directory] = await waitUntil(() => {
        const found = environment.runDirectories();
        return found.length > 0 && existsSync(join(found[0]!, "events.jsonl")) && found;
      });
      const file = (name: string) => readFileSync(join(directory!, name), "utf8");
      await waitUntil(() => file("stdout.bin") === "one\n" && file("stderr.bin") === "two\n", "the output on its way");
      const chunks = () => readJournal(directory!).filter(({ type }) => type === "chunk");
      await waitUntil(() => chunks().length === 2, "its journal");
      expect(existsSync(join(directory!, "receipt.json"))).toBe(false);
      environment.write(go, "");
      expect((await running).code).toBe(0);
      expect(file("stdout.bin")).toBe("one\nthree\n");
    }),
  );

  test(
    "ends where the child closes a stream, and the child goes on",
    inEnvironment(async (environment) => {
      const ended = "until grep -q stream_end .agent-shell/artifacts/*/*/*/events.jsonl; do sleep 0.01; done";
      const script = `echo a; exec >&-; ${ended}; echo b >&2; exit 3`;
      expect((await environment.ash(["sh", "-c", script])).code).toBe(3);
      const { events, stdout, stderr } = environment.lastRun();
      expect([stdout.toString(), stderr.toString()]).toEqual(["a\n", "b\n"]);
      const order = events
        .filter(({ type }) => type !== "sample")
        .map((event) => `${event.type}${"stream" in event ? ` ${event.stream}` : ""}`);
      expect(order.slice(0, 4)).toEqual(["run_started", "chunk stdout", "stream_end stdout", "chunk stderr"]);
      expect((await environment.ash(["sh", "-c", "exec >&- 2>&-; sleep 0.05; exit 4"])).code).toBe(4);
    }),
  );

  test(
    "that the store cannot take is counted, the prefix kept, and the child's end not touched: ulimit -f 100",
    inEnvironment(async (environment) => {
      const script = "ulimit -f 100; ASH_FMT=json ash sh -c 'head -c 300000 /dev/zero; echo end >&2; exit 3'; echo $?";
      const outcome = await environment.run(script);
      expect(outcome.stdout).toEndWith("\n3\n");
      const { receipt, stdout, stderr, events } = environment.lastRun();
      expect(stdout.equals(Buffer.alloc(102_400))).toBe(true);
      expect(stderr.toString()).toBe("end\n");
      expect(receipt.streams.stdout).toMatchObject({ complete: false, ended: "eof" });
      expect(receipt.storage).toMatchObject({ complete: false, reason: "EFBIG", lost_bytes: 197_600 });
      expect(events.filter(({ type }) => type === "storage_error")).toMatchObject([
        { stream: "stdout", reason: "EFBIG" },
      ]);
      expect(JSON.parse(outcome.stdout.split("\n")[0]!)).toMatchObject({ quickview: null });
      const human = await environment.run("ulimit -f 100; ash sh -c 'head -c 300000 /dev/zero'");
      expect(human.stdout).toMatch(/^ {2}storage: streams=1\/2 .* complete=no reason=EFBIG lost=193\.0KiB$/m);
    }),
  );

  test(
    "is whole where the journal cannot be written further, and the receipt says so",
    inEnvironment(async (environment) => {
      const program = "import os,time\nfor i in range(300): os.write(1, b'x'); time.sleep(.0005)";
      const outcome = await environment.run('ulimit -f 4; ash python3 -c "$1"; echo $?', {}, program);
      expect(outcome.stdout).toEndWith("\n0\n");
      const [directory] = environment.runDirectories();
      const receipt = JSON.parse(readFileSync(join(directory!, "receipt.json"), "utf8"));
      expect(receipt.streams.stdout).toMatchObject({ bytes: 300, complete: true });
      expect(receipt.storage).toMatchObject({ complete: false, reason: "EFBIG", lost_bytes: 0 });
      // Whole lines, and at most one that is torn.
      expect(readJournal(directory!).length).toBeGreaterThan(10);
      rmSync(directory!, { recursive: true });
    }),
  );
});

describe("a descendant that outlives the child", () => {
  test(
    "and holds the streams keeps ash for a moment only, and lives on: sh -c 'sleep 30 & echo $!'",
    inEnvironment(async (environment) => {
      const started = performance.now();
      const outcome = await environment.ash(["sh", "-c", "sleep 30 & echo $!; exit 3"]);
      expect(performance.now() - started).toBeLessThan(2000);
      const { stdout, receipt, events } = environment.lastRun();
      const pid = Number(stdout.toString());
      expect(isAlive(pid)).toBe(true);
      kill(pid);
      expect(outcome.code).toBe(3);
      expect(receipt.state).toBe("completed");
      for (const stream of ["stdout", "stderr"] as const) {
        expect(receipt.streams[stream]).toMatchObject({ ended: "held_open", complete: true });
      }
      // The run's duration ends with the child.
      expect(events.at(-1)!.elapsed_ns - receipt.wall_ms * 1e6).toBeGreaterThan(249e6);
      expect(outcome.stdout).toMatch(/^ {2}held-open: stdout\b/m);
      expect(outcome.stdout).toContain("stdout| ");
    }),
  );

  test(
    "and holds one stream leaves the other to its end: sh -c 'sleep 30 >/dev/null & echo $!'",
    inEnvironment(async (environment) => {
      await environment.ash(["sh", "-c", "sleep 30 >/dev/null & echo $!"]);
      const { stdout, receipt } = environment.lastRun();
      kill(Number(stdout.toString()));
      expect([receipt.streams.stdout!.ended, receipt.streams.stderr!.ended]).toEqual(["eof", "held_open"]);
    }),
  );

  test(
    "and holds no stream does not keep ash at all",
    inEnvironment(async (environment) => {
      await environment.ash(["sh", "-c", "sleep 30 >/dev/null 2>&1 & echo $!"]);
      const { stdout, receipt, events } = environment.lastRun();
      kill(Number(stdout.toString()));
      expect([receipt.streams.stdout!.ended, receipt.streams.stderr!.ended]).toEqual(["eof", "eof"]);
      expect(events.at(-1)!.elapsed_ns - receipt.wall_ms * 1e6).toBeLessThan(200e6);
      expect(receipt.cpu!.partial).toBe(true);
    }),
  );

  test(
    "and writes without a pause does not keep ash either, and loses nothing of the child's",
    inEnvironment(async (environment) => {
      const started = performance.now();
      const script =
        "sh -c 'echo $$ >pid; while :; do echo tick; done' & until [ -s pid ]; do :; done; echo foreground; exit 2";
      const outcome = await environment.ash(["sh", "-c", script]);
      expect(performance.now() - started).toBeLessThan(3000);
      kill(Number(readFileSync(join(environment.project, "pid"), "utf8")));
      expect(outcome.code).toBe(2);
      const { stdout, receipt } = environment.lastRun();
      expect(stdout.toString()).toContain("foreground\n");
      expect(receipt.streams.stdout!.ended).toBe("held_open");
    }),
  );
});

describe("the figures", () => {
  test(
    "have samples of the process tree already in a run of 300 ms",
    inEnvironment(async (environment) => {
      await environment.ash(["sh", "-c", "sleep 0.3 & sleep 0.3; wait"]);
      const { events, receipt } = environment.lastRun();
      const samples = events.filter((event) => event.type === "sample");
      expect(samples.length).toBeGreaterThanOrEqual(4);
      expect(samples[0]!.elapsed_ns).toBeLessThan(100e6);
      const most = samples.reduce((a, b) => (a.processes >= b.processes ? a : b));
      expect(most.processes).toBe(3);
      expect(most.threads).toBe(3);
      expect(most.rss_bytes).toBeGreaterThan(most.peak_bytes!);
      expect(receipt.rss!.tree_bytes).toMatchObject({ quality: "sampled", source: "VmRSS" });
      expect(receipt.wall_ms).toBeGreaterThan(295);
      expect(receipt.wall_ms).toBeLessThan(900);
    }),
  );

  test(
    "have the exact peak memory of a large process: python3 -c 'b=bytearray(200<<20)'",
    inEnvironment(async (environment) => {
      await environment.ash(["python3", "-c", "b=bytearray(200<<20)"]);
      const { value, quality, source } = environment.lastRun().receipt.rss!.process_bytes;
      expect([quality, source]).toEqual(["exact", "ru_maxrss"]);
      expect(value!).toBeGreaterThan(200 * MIB);
      expect(value!).toBeLessThan(230 * MIB);
    }),
  );

  test(
    "never call the broker's own size the exact memory of a small process: true",
    inEnvironment(async (environment) => {
      const outcome = await environment.ash(["true"]);
      const { quality } = environment.lastRun().receipt.rss!.process_bytes;
      expect(["upper_bound", "sampled"]).toContain(quality);
      expect(outcome.stdout).toMatch(/ max-rss=(<=|~)\d/);
      // Long enough to be sampled: its own size, and no longer a bound.
      await environment.ash(["sleep", "0.05"]);
      const sampled = environment.lastRun().receipt.rss!.process_bytes;
      expect(sampled).toMatchObject({ quality: "sampled", source: "VmHWM" });
      expect(sampled.value!).toBeLessThan(16 * MIB);
    }),
  );

  test(
    "have the processor time of the child and of the descendants it waited for",
    inEnvironment(async (environment) => {
      const burn = "import time\nwhile time.process_time() < .3: pass";
      await environment.ash(["python3", "-c", burn]);
      const direct = environment.lastRun().receipt;
      await environment.run('ash sh -c "python3 -c \\"\\$1\\"; :" sh "$1"', {}, burn);
      const waited = environment.lastRun().receipt;
      for (const { cpu, wall_ms } of [direct, waited]) {
        const used = cpu!.user_ms! + cpu!.system_ms!;
        expect(used).toBeGreaterThan(290);
        expect(used).toBeLessThan(600);
        expect(cpu!.percent!).toBeCloseTo((used / wall_ms) * 100, 0);
        expect(cpu!.partial).toBe(false);
      }
    }),
  );

  test(
    "have the machine before and after, as numbers that can be",
    inEnvironment(async (environment) => {
      await environment.ash(["true"]);
      const { before, after } = environment.lastRun().receipt.host;
      for (const state of [before!, after!]) {
        expect(state.memory_available_bytes!).toBeLessThan(state.memory_total_bytes!);
        expect(state.memory_used_percent!).toBeGreaterThan(0);
        expect(state.memory_used_percent!).toBeLessThan(100);
        expect(state.processes!).toBeGreaterThan(0);
      }
    }),
  );
});

test(
  "ash killed with SIGKILL leaves the bytes it had read and a journal of them, and no receipt",
  inEnvironment(async (environment) => {
    const script = "i=0; while [ $i -lt 500 ]; do echo line $i; i=$((i+1)); done; exec sleep 30";
    const broker = Bun.spawn([ASH, "sh", "-c", script], {
      cwd: environment.project,
      env: environment.variables,
      stdout: "ignore",
    });
    const expected = Array.from({ length: 500 }, (_, i) => `line ${i}\n`).join("");
    const directory = await waitUntil(() => {
      const [found] = environment.runDirectories();
      return found !== undefined && existsSync(join(found, "events.jsonl")) ? found : null;
    });
    environment.unfinished.add(directory);
    const covered = () =>
      readJournal(directory).reduce((bytes, event) => bytes + (event.type === "chunk" ? event.bytes : 0), 0);
    await waitUntil(() => covered() === expected.length, "the journal of all lines");
    broker.kill("SIGKILL");
    await broker.exited;
    expect(readFileSync(join(directory, "stdout.bin"), "utf8")).toBe(expected);
    const events = readJournal(directory);
    const child = events[0]!.type === "run_started" ? events[0]!.pid! : 0;
    expect(isAlive(child)).toBe(true);
    kill(child);
    expect(events.some(({ type }) => type === "run_finalized" || type === "child_exited")).toBe(false);
    // The next run of the same group has no predecessor to name.
    const again = await environment.ashJson(["sh", "-c", "true"]);
    expect(again.previous).toBeNull();
  }),
);
