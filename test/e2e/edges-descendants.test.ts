import { describe, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import {
  assertLate,
  type EdgeEnvironment,
  hasLateOutput,
  inEdges,
  isAlive,
  type LivingProcess,
  timed,
} from "../helpers/edges.ts";
import { waitUntil } from "../helpers/wait-until.ts";

/** A background holder of the streams, and the child's own word. */
const SILENT = "(exec -a edge-holder sleep 60) & echo done";

const drainers = (environment: EdgeEnvironment): LivingProcess[] => environment.named("ash-drain");

async function endHolders(environment: EdgeEnvironment, name = "edge-holder"): Promise<void> {
  for (const { pid } of environment.named(name)) process.kill(pid, "SIGKILL");
  await environment.assertNothingLeft();
}

const late = (environment: EdgeEnvironment, name: string): Buffer =>
  readFileSync(join(environment.runDirectories().at(-1)!, name));

describe.skipIf(process.platform !== "linux")("a descendant that keeps the streams", () => {
  test.each([
    SILENT,
    "setsid bash -c 'exec -a edge-holder sleep 60' & echo done",
    "(setsid bash -c '(exec -a edge-holder sleep 60) &' &); sleep 0.1; echo done",
    'python3 -c \'import os,sys\nif os.fork() == 0: os.setsid(); os.execvp("sleep", ["edge-holder", "60"])\' ; echo done',
  ])("and is silent does not keep ash, and lives on: %s", (script) =>
    inEdges(async (environment) => {
      const { value, ms } = await timed(environment.ash(["bash", "-c", script]));
      expect(value).toMatchObject({ code: 0, stderr: "" });
      expect(ms).toBeLessThan(1000);
      const { receipt, stdout, directory } = environment.lastRun();
      expect(stdout.toString()).toBe("done\n");
      const [holder] = environment.named("edge-holder");
      for (const stream of ["stdout", "stderr"] as const) {
        expect(receipt.streams[stream]).toMatchObject({ ended: "held_open", complete: true, held_by: [holder!.pid] });
      }
      expect([receipt.state, receipt.exit.code, receipt.terminated]).toEqual(["completed", 0, null]);
      expect(value.stdout).toContain("held-open:");
      expect(value.stdout).toContain(String(holder!.pid));
      expect(receipt.wall_ms).toBeLessThan(ms - 240);
      await endHolders(environment);
      expect(hasLateOutput(directory)).toBe(false);
      expect(existsSync(join(directory, "derived"))).toBe(false);
    })(),
  );

  test(
    "and writes without a pause does not keep ash either: while :; do echo tick; sleep 0.05; done",
    inEdges(async (environment) => {
      for (const noise of [
        "while :; do echo tick; sleep 0.05; done",
        "while :; do echo tick; done",
        "while :; do echo tick >&2; done",
      ]) {
        const script = `bash -c 'echo $$ >noisy; ${noise}' & sleep 0.3; echo fg; exit 5`;
        const { value, ms } = await timed(environment.ash(["bash", "-c", script]));
        expect([noise, value.code, value.stderr]).toEqual([noise, 5, ""]);
        expect(ms).toBeLessThan(1500);
        const pid = Number(environment.read("noisy"));
        expect(isAlive(pid)).toBe(true);
        const { receipt, stdout, directory } = environment.lastRun();
        expect(stdout.toString().split("\n")).toContain("fg");
        expect(receipt.exit).toEqual({ kind: "code", code: 5, signal: null });
        // It goes on into the late file, and is never told.
        const name = noise.includes(">&2") ? "stderr.late.bin" : "stdout.late.bin";
        await waitUntil(() => existsSync(join(directory, name)) && late(environment, name).length > 20, name);
        expect(isAlive(pid)).toBe(true);
        process.kill(pid, "SIGKILL");
        await environment.assertNothingLeft();
        expect(late(environment, name).toString()).toMatch(/tick\n/);
      }
    }),
  );

  test(
    "and closes them within the linger is no holder: sleep 0.1 & echo done",
    inEdges(async (environment) => {
      for (const [options, script] of [
        [[], "(sleep 0.08; echo late) & echo done"],
        [["--linger-ms", "3000"], "(sleep 0.6; echo late) & echo done"],
      ] as const) {
        const { value, ms } = await timed(environment.runWith(options, ["sh", "-c", script]));
        expect(value.code).toBe(0);
        const { receipt, stdout } = environment.lastRun();
        expect(stdout.toString()).toBe("done\nlate\n");
        expect(receipt.streams.stdout).toMatchObject({ ended: "eof", complete: true, held_by: null });
        expect(ms).toBeLessThan(1500);
        expect(environment.processes()).toEqual([]);
      }
    }),
  );

  test(
    "is not waited for with --linger-ms 0, and nothing of the child's is lost",
    inEdges(async (environment) => {
      for (let i = 0; i < 5; i += 1) {
        const script = `(exec -a edge-holder sleep 60) & head -c 900000 /dev/zero; echo end`;
        const { value, ms } = await timed(environment.runWith(["--linger-ms", "0"], ["bash", "-c", script]));
        expect(value.code).toBe(0);
        expect(ms).toBeLessThan(700);
        const { receipt, stdout } = environment.lastRun();
        expect(stdout).toHaveLength(900_004);
        expect(receipt.streams.stdout).toMatchObject({ ended: "held_open", complete: true });
        expect(receipt.limits.linger_ms).toBe(0);
        await endHolders(environment);
        expect(hasLateOutput(environment.lastRun().directory)).toBe(false);
      }
      const plain = await environment.runWith(["--linger-ms", "0"], ["sh", "-c", "head -c 900000 /dev/zero"]);
      expect(plain.code).toBe(0);
      expect(environment.lastRun().receipt.streams.stdout).toMatchObject({ ended: "eof", bytes: 900_000 });
    }),
  );

  test(
    "of one stream only leaves the other to its end",
    inEdges(async (environment) => {
      const script = "(exec -a edge-holder sleep 60) 2>/dev/null & echo out; echo err >&2";
      expect((await environment.ash(["bash", "-c", script])).code).toBe(0);
      const { receipt } = environment.lastRun();
      const [holder] = environment.named("edge-holder");
      expect(receipt.streams.stdout).toMatchObject({ ended: "held_open", held_by: [holder!.pid] });
      expect(receipt.streams.stderr).toMatchObject({ ended: "eof", held_by: null });
      await endHolders(environment);
    }),
  );

  test(
    "is named with all others that have them",
    inEdges(async (environment) => {
      const script = "for i in 1 2 3; do (exec -a edge-holder sleep 60) & done; echo done";
      expect((await environment.ash(["bash", "-c", script])).code).toBe(0);
      const pids = environment.named("edge-holder").map(({ pid }) => pid);
      expect(pids).toHaveLength(3);
      expect(environment.lastRun().receipt.streams.stdout!.held_by!.toSorted()).toEqual(pids.toSorted());
      await endHolders(environment);
    }),
  );

  test(
    "does not change the child's death by a signal: kill -9 $$",
    inEdges(async (environment) => {
      const { value, ms } = await timed(environment.ash(["bash", "-c", "(exec -a edge-holder sleep 60) & kill -9 $$"]));
      expect(value.code).toBe(137);
      expect(ms).toBeLessThan(1000);
      expect(environment.lastRun().receipt.exit).toEqual({ kind: "signal", code: null, signal: "SIGKILL" });
      expect(environment.named("edge-holder")).toHaveLength(1);
      await endHolders(environment);
    }),
  );
});

describe.skipIf(process.platform !== "linux")("the drainer", () => {
  test(
    "has nothing of the caller: no descriptor, a session of its own, / as its directory, no environment",
    inEdges(async (environment) => {
      environment.write("f7", "");
      const outcome = await environment.run(`exec 7<f7 8>f8; ash bash -c '${SILENT}'`);
      expect(outcome.code).toBe(0);
      await waitUntil(() => drainers(environment).length === 1, "the drainer");
      const { pid } = drainers(environment)[0]!;
      const targets = () =>
        readdirSync(`/proc/${pid}/fd`)
          .map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`))
          .map((target) => target.replace(/:\[\d+\]/, ""));
      await waitUntil(() => targets().filter((target) => target === "pipe").length === 2, "its pipes");
      for (const target of targets()) {
        expect(target).toMatch(/^(\/dev\/null|pipe|anon_inode:.*|\/proc\/.*|\/sys\/.*)$/);
      }
      expect(readlinkSync(`/proc/${pid}/cwd`)).toBe("/");
      // Field 6 is the session, field 7 the terminal.
      const fields = readFileSync(`/proc/${pid}/stat`, "latin1")
        .replace(/\(.*\)/s, "name")
        .split(" ");
      expect([Number(fields[5]), fields[6]]).toEqual([pid, "0"]);
      expect(readFileSync(`/proc/${pid}/environ`, "latin1")).toBe("");
      await endHolders(environment);
    }),
  );

  test(
    "keeps no pipe of the caller open: ash … | cat ends with ash",
    inEdges(async (environment) => {
      const { value, ms } = await timed(environment.run(`ash bash -c '${SILENT}' 2>&1 | cat; echo after`));
      expect(value.stdout).toEndWith("after\n");
      expect(ms).toBeLessThan(1500);
      const captured = await timed(environment.run(`x=$(ash bash -c '${SILENT}'); echo "\${#x}"`));
      expect(captured.ms).toBeLessThan(1500);
      await endHolders(environment);
    }),
  );

  test(
    "stores late output with a journal of it, and the receipt does not change",
    inEdges(async (environment) => {
      const script = `(until [ -e go ]; do sleep 0.02; done; echo late-out; echo late-err >&2; printf tail; echo fine >end) & echo now`;
      expect((await environment.ash(["sh", "-c", script])).code).toBe(0);
      const { directory, receipt } = environment.lastRun();
      const before = readFileSync(join(directory, "receipt.json"));
      environment.write("go", "");
      await environment.waitForFile("end");
      await environment.assertNothingLeft();
      expect(late(environment, "stdout.late.bin").toString()).toBe("late-out\ntail");
      expect(late(environment, "stderr.late.bin").toString()).toBe("late-err\n");
      expect(readFileSync(join(directory, "receipt.json")).equals(before)).toBe(true);
      const events = assertLate(directory);
      expect(events.filter(({ type }) => type === "stream_end")).toHaveLength(2);
      // Its clock is the run's.
      for (const event of events) expect(event.elapsed_ns).toBeGreaterThan(receipt.wall_ms * 1e6);
      expect(readdirSync(directory).sort()).toEqual([
        "events.jsonl",
        "late.jsonl",
        "receipt.json",
        "stderr.bin",
        "stderr.late.bin",
        "stdout.bin",
        "stdout.late.bin",
      ]);
    }),
  );

  test(
    "keeps what is written in the moment of the hand-over: a counter has no gap",
    inEdges(async (environment) => {
      const script = `python3 -c 'import time
for i in range(30000):
  print(i, flush=i % 7 == 0)
  if i % 500 == 0: time.sleep(0.01)
open("end", "w").write("x")' & sleep 0.1`;
      expect((await environment.runWith(["--linger-ms", "100"], ["sh", "-c", script])).code).toBe(0);
      await environment.waitForFile("end");
      await environment.assertNothingLeft();
      const { stdout, directory } = environment.lastRun();
      const rest = existsSync(join(directory, "stdout.late.bin"))
        ? late(environment, "stdout.late.bin")
        : Buffer.alloc(0);
      expect(rest.length).toBeGreaterThan(0);
      const whole = Array.from({ length: 30_000 }, (_, i) => `${i}\n`).join("");
      expect(Buffer.concat([stdout, rest]).toString()).toBe(whole);
    }),
  );

  test(
    "stores no more than the budget left, and reads on: the writer is never told",
    inEdges(async (environment) => {
      const script = `python3 -c 'import os,time
while not os.path.exists("go"): time.sleep(0.01)
for i in range(2000): os.write(1, b"y" * 1000)
open("end", "w").write("fine")' & head -c 4000 /dev/zero`;
      const outcome = await environment.runWith(["--max-output-bytes", "10000"], ["sh", "-c", script]);
      expect(outcome.code).toBe(0);
      environment.write("go", "");
      expect(await environment.waitForFile("end")).toBe("fine");
      await environment.assertNothingLeft();
      const { directory, stdout } = environment.lastRun();
      expect([stdout.length, late(environment, "stdout.late.bin").length]).toEqual([4000, 6000]);
      const events = assertLate(directory);
      expect(events.filter(({ type }) => type === "limit")).toHaveLength(1);
    }),
  );

  test(
    "of a run whose budget was used up leaves no empty files",
    inEdges(async (environment) => {
      const script = `(until [ -e go ]; do sleep 0.02; done; echo more; echo fine >end) & head -c 4000 /dev/zero`;
      const outcome = await environment.runWith(["--max-output-bytes", "4000"], ["sh", "-c", script]);
      expect(outcome.code).toBe(0);
      environment.write("go", "");
      expect(await environment.waitForFile("end")).toBe("fine\n");
      await environment.assertNothingLeft();
      expect(existsSync(join(environment.lastRun().directory, "stdout.late.bin"))).toBe(false);
    }),
  );

  test(
    "is there for a run without a store too: the writer lives",
    inEdges(async (environment) => {
      const script = `(until [ -e go ]; do sleep 0.02; done; echo more; echo fine >end) & echo now`;
      const env = { ASH_ROOT: "/dev/null/x", XDG_STATE_HOME: "/dev/null/x", TMPDIR: "/dev/null" };
      const { value, ms } = await timed(environment.ash(["sh", "-c", script], { env }));
      expect([value.code, value.stdout.includes("stored=none")]).toEqual([0, true]);
      expect(ms).toBeLessThan(1500);
      environment.write("go", "");
      expect(await environment.waitForFile("end")).toBe("fine\n");
    }),
  );

  test(
    "survives the run directory, and a hangup, interrupt and termination of the caller's group",
    inEdges(async (environment) => {
      const script = `(trap '' HUP INT TERM; until [ -e go ]; do sleep 0.02; done; echo more; echo fine >end) & echo now`;
      await environment.python(
        `import os,signal,subprocess,sys
p = subprocess.Popen(['ash', 'sh', '-c', sys.argv[1]], start_new_session=True, stdout=subprocess.DEVNULL)
p.wait()
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM): os.killpg(p.pid, number)`,
        {},
        script,
      );
      expect(drainers(environment)).toHaveLength(1);
      environment.write("go", "");
      expect(await environment.waitForFile("end")).toBe("fine\n");
      await environment.assertNothingLeft();
      expect(late(environment, "stdout.late.bin").toString()).toBe("more\n");
    }),
  );
});
