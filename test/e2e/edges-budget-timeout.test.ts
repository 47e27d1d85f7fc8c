import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { type EdgeEnvironment, inEdges, isAlive, timed } from "../helpers/edges.ts";
import { waitUntil } from "../helpers/wait-until.ts";

/** The state, exit and budget facts of the last run. */
function lastEnd(environment: EdgeEnvironment) {
  const { receipt, stdout, stderr } = environment.lastRun();
  return { state: receipt.state, exit: receipt.exit, bytes: stdout.length + stderr.length };
}

describe("the output budget", () => {
  test(
    "ends a run with exactly its prefix stored: --max-output-bytes 65536 -- seq 1000000",
    inEdges(async (environment) => {
      for (const budget of [1, 100, 65_535, 65_536, 65_537]) {
        const outcome = await environment.runWith(["--max-output-bytes", String(budget)], ["seq", "1000000"]);
        expect([budget, outcome.code, outcome.stderr]).toEqual([budget, 125, ""]);
        const run = environment.lastRun();
        const whole = Array.from({ length: 20_000 }, (_, i) => `${i + 1}\n`).join("");
        expect(run.stdout.toString()).toBe(whole.slice(0, budget));
        expect(run.receipt.state).toBe("output_limited");
        expect(run.receipt.streams.stdout).toMatchObject({ ended: "budget", complete: false });
        expect(run.receipt.storage.complete).toBe(false);
        expect(run.events.filter(({ type }) => type === "limit")).toMatchObject([{ value: budget }]);
        expect(outcome.stdout).toContain("state=output_limited");
        expect(outcome.stdout).toContain("complete=no");
      }
    }),
  );

  test(
    "holds for both streams together, in whatever order they come",
    inEdges(async (environment) => {
      for (const script of [
        "seq 100000 & seq 100000 >&2; wait",
        "head -c 9990 /dev/zero; head -c 20 /dev/zero >&2",
        "head -c 9990 /dev/zero >&2; head -c 20 /dev/zero",
        "head -c 10001 /dev/zero >&2",
      ]) {
        const outcome = await environment.runWith(["--max-output-bytes", "10000"], ["sh", "-c", script]);
        expect([script, outcome.code, lastEnd(environment).bytes]).toEqual([script, 125, 10_000]);
        expect(lastEnd(environment).state).toBe("output_limited");
      }
    }),
  );

  test(
    "is not reached by exactly its bytes",
    inEdges(async (environment) => {
      for (const script of [
        "head -c 10000 /dev/zero",
        "head -c 5000 /dev/zero; head -c 5000 /dev/zero >&2",
        "head -c 9999 /dev/zero; sleep 0.1; printf x; exit 7",
        "head -c 9999 /dev/zero",
      ]) {
        await environment.runWith(["--max-output-bytes", "10000"], ["sh", "-c", script]);
        const { receipt } = environment.lastRun();
        expect([script, receipt.state, receipt.storage.complete]).toEqual([script, "completed", true]);
        expect(receipt.storage.lost_bytes).toBe(0);
      }
      const empty = await environment.runWith(["--max-output-bytes", "1"], ["true"]);
      expect(empty.code).toBe(0);
    }),
  );

  test(
    "is that of ASH_MAX_OUTPUT_BYTES, for ash and ashctl run, and the option wins",
    inEdges(async (environment) => {
      const env = { ASH_MAX_OUTPUT_BYTES: "1000" };
      expect((await environment.ash(["seq", "1000"], { env })).code).toBe(125);
      expect(lastEnd(environment)).toMatchObject({ state: "output_limited", bytes: 1000 });
      expect((await environment.runWith([], ["seq", "1000"], { env })).code).toBe(125);
      expect(lastEnd(environment)).toMatchObject({ state: "output_limited", bytes: 1000 });
      const wider = await environment.runWith(["--max-output-bytes", "5000"], ["seq", "1000"], { env });
      expect(wider.code).toBe(0);
      expect(environment.lastRun().receipt.limits.max_output_bytes).toBe(5000);
      const seen = await environment.ash(["sh", "-c", "echo $ASH_MAX_OUTPUT_BYTES"], { env });
      expect(seen.code).toBe(0);
      expect(environment.lastRun().stdout.toString()).toBe("1000\n");
    }),
  );

  test(
    "of 0 is none, and of nothing the default",
    inEdges(async (environment) => {
      const none = await environment.runWith(["--max-output-bytes", "0", "--max-stdin-bytes", "0"], ["seq", "10000"]);
      expect(none.code).toBe(0);
      expect(environment.lastRun().receipt.limits).toMatchObject({ max_output_bytes: null, max_stdin_bytes: null });
      for (const [value, limit] of [
        ["0", null],
        ["", 256 * 2 ** 20],
      ] as const) {
        expect((await environment.ash(["seq", "9"], { env: { ASH_MAX_OUTPUT_BYTES: value } })).code).toBe(0);
        expect(environment.lastRun().receipt.limits.max_output_bytes).toBe(limit);
      }
    }),
  );

  test(
    "that is no number is 125 in one line, and nothing runs: ASH_MAX_OUTPUT_BYTES=1M",
    inEdges(async (environment) => {
      for (const value of ["1M", "-1", "1e3", "0x10", "1 "]) {
        const outcome = await environment.ash(["touch", "ran"], { env: { ASH_MAX_OUTPUT_BYTES: value } });
        expect([value, outcome.code, outcome.stderr.trim().split("\n").length]).toEqual([value, 125, 1]);
        const option = await environment.runWith([`--max-output-bytes=${value}`], ["touch", "ran"]);
        expect([value, option.code, option.stderr.trim().split("\n").length]).toEqual([value, 125, 1]);
      }
      expect(existsSync(environment.path("ran"))).toBe(false);
      expect(environment.runDirectories()).toEqual([]);
    }),
  );

  test(
    "stops the whole tree, and a child that cleans up on SIGTERM is not blocked by its pipe: yes | cat",
    inEdges(async (environment) => {
      const script = "trap 'seq 300000; echo clean >clean; exit 3' TERM; (exec -a flood yes) | cat & wait; sleep 1";
      const { value, ms } = await timed(environment.runWith(["--max-output-bytes", "100000"], ["bash", "-c", script]));
      expect(value.code).toBe(125);
      expect(ms).toBeLessThan(3500);
      expect(environment.named("flood")).toEqual([]);
      expect(environment.read("clean")).toBe("clean\n");
      expect(lastEnd(environment)).toMatchObject({ state: "output_limited", exit: { kind: "code", code: 3 } });
      expect(environment.lastRun().stdout).toHaveLength(100_000);
    }),
  );
});

describe.skipIf(process.platform !== "linux")("a time-out", () => {
  test(
    "shows and keeps what came before it, and is exit 124",
    inEdges(async (environment) => {
      const script = "import time;print('partial',flush=True);time.sleep(9)";
      const { value, ms } = await timed(environment.runWith(["--timeout-ms", "500"], ["python3", "-c", script]));
      expect(value).toMatchObject({ code: 124, stderr: "" });
      expect(value.stdout).toContain("state=timed_out exit=signal:SIGTERM");
      expect(value.stdout).toContain("stdout| partial");
      expect(ms).toBeGreaterThan(490);
      expect(ms).toBeLessThan(2500);
      const { receipt, events, stdout } = environment.lastRun();
      expect(stdout.toString()).toBe("partial\n");
      expect(receipt).toMatchObject({ state: "timed_out", exit: { kind: "signal", signal: "SIGTERM" } });
      expect(receipt.limits.timeout_ms).toBe(500);
      expect(receipt.terminated).toEqual({ signalled: 1, killed: 0, survivors: [] });
      expect(events.filter(({ type }) => type === "limit")).toMatchObject([{ limit: "timeout_ms", value: 500 }]);
      expect(events.filter(({ type }) => type === "signal")).toMatchObject([
        { direction: "sent", signal: "SIGTERM", pid: receipt.pid },
      ]);
    }),
  );

  test(
    "is one also when the child answers SIGTERM with exit code 0",
    inEdges(async (environment) => {
      const script = "trap 'echo bye; exit 0' TERM; echo hi; while :; do sleep 0.01; done";
      const outcome = await environment.runWith(["--timeout-ms", "200"], ["sh", "-c", script]);
      expect(outcome.code).toBe(124);
      expect(lastEnd(environment)).toMatchObject({ state: "timed_out", exit: { kind: "code", code: 0 } });
      expect(environment.lastRun().stdout.toString()).toBe("hi\nbye\n");
    }),
  );

  test(
    "leaves nothing: processes that ignore SIGTERM, setsid, double-forked, each counted",
    inEdges(async (environment) => {
      const script = `trap "" TERM
(exec -a edge-ignores sleep 71) &
setsid bash -c 'exec -a edge-session sleep 72' &
(setsid bash -c 'trap - TERM; (exec -a edge-orphan sleep 73) & exit' &)
python3 -c 'import os
if os.fork() == 0:
  os.setsid()
  if os.fork() == 0: os.execvp("sleep", ["edge-daemon", "74"])
  os._exit(0)
os.wait()'
echo ready
exec -a edge-child sleep 75`;
      const names = ["edge-ignores", "edge-session", "edge-orphan", "edge-daemon", "edge-child"];
      const started = environment.start([
        "ashctl",
        "run",
        "--timeout-ms",
        "1000",
        "--kill-after-ms",
        "300",
        "--",
        "bash",
        "-c",
        script,
      ]);
      await waitUntil(() => names.every((name) => environment.named(name).length === 1), "all processes");
      const { ms } = await timed(started.ended);
      expect(await started.ended).toBe(124);
      expect(ms).toBeLessThan(2500);
      for (const name of names) expect([name, environment.named(name)]).toEqual([name, []]);
      const { terminated } = environment.lastRun().receipt;
      expect(terminated!.survivors).toEqual([]);
      expect(terminated!.signalled).toBeGreaterThanOrEqual(5);
      expect(terminated!.killed).toBeGreaterThanOrEqual(4);
      expect(terminated!.killed).toBeLessThanOrEqual(terminated!.signalled);
    }),
  );

  test(
    "ends stopped processes: sh -c 'kill -STOP $$', and a stopped background child",
    inEdges(async (environment) => {
      for (const script of [
        "kill -STOP $$",
        "(exec -a edge-stopped sleep 60) & kill -STOP $!; wait",
        "trap '' TERM; (exec -a edge-stopped sleep 60) & kill -STOP $! $$",
      ]) {
        const options = ["--timeout-ms", "300", "--kill-after-ms", "300"];
        const { value, ms } = await timed(environment.runWith(options, ["bash", "-c", script]));
        expect([script, value.code]).toEqual([script, 124]);
        expect(ms).toBeLessThan(2500);
        expect(environment.processes()).toEqual([]);
      }
    }),
  );

  test(
    "ends a loop that forks without a pause, and one whose children ignore SIGTERM",
    inEdges(async (environment) => {
      for (const script of [
        "while :; do (exec -a edge-fork sleep 50) & sleep 0.005; done",
        "trap '' TERM; while :; do (exec -a edge-fork sleep 50) & sleep 0.005; done",
        "while :; do setsid bash -c '(exec -a edge-fork sleep 50) &' & wait; done",
      ]) {
        const options = ["--timeout-ms", "300", "--kill-after-ms", "300"];
        const { value, ms } = await timed(environment.runWith(options, ["bash", "-c", script]));
        expect([script, value.code]).toEqual([script, 124]);
        expect(ms).toBeLessThan(4000);
        expect(environment.named("edge-fork")).toEqual([]);
        expect(environment.lastRun().receipt.terminated!.survivors).toEqual([]);
        expect(environment.processes()).toEqual([]);
      }
    }),
  );

  test(
    "with --kill-after-ms 0 kills at once",
    inEdges(async (environment) => {
      const script = "trap 'echo asked' TERM; while :; do sleep 0.01; done";
      const options = ["--timeout-ms", "300", "--kill-after-ms", "0"];
      const { value, ms } = await timed(environment.runWith(options, ["sh", "-c", script]));
      expect(value.code).toBe(124);
      expect(ms).toBeLessThan(1500);
      const { receipt, stdout } = environment.lastRun();
      expect(stdout.toString()).toBe("");
      expect(receipt.exit).toEqual({ kind: "signal", code: null, signal: "SIGKILL" });
      expect(receipt.terminated!.killed).toBe(receipt.terminated!.signalled);
      expect(receipt.terminated!.killed).toBeGreaterThan(0);
    }),
  );

  test(
    "takes --kill-after-ms from asking to killing",
    inEdges(async (environment) => {
      const script = "trap '' TERM; echo $$; while :; do sleep 0.01; done";
      const options = ["--timeout-ms", "200", "--kill-after-ms", "700"];
      const { value, ms } = await timed(environment.runWith(options, ["sh", "-c", script]));
      expect(value.code).toBe(124);
      expect(ms).toBeGreaterThan(890);
      expect(ms).toBeLessThan(2500);
      expect(lastEnd(environment).exit.signal).toBe("SIGKILL");
    }),
  );

  test(
    "of any length is one that has not passed: 30 days, 2^31, 15 digits; and 0 is none",
    inEdges(async (environment) => {
      for (const ms of ["2592000000", "2147483648", "999999999999999", "0"]) {
        const outcome = await environment.runWith(["--timeout-ms", ms], ["sh", "-c", "sleep 0.1; echo ok"]);
        expect([ms, outcome.code, lastEnd(environment).state]).toEqual([ms, 0, "completed"]);
        expect(environment.lastRun().receipt.limits.timeout_ms).toBe(ms === "0" ? null : Number(ms));
      }
      for (const ms of ["-1", "1s", "", "1.5"]) {
        const outcome = await environment.runWith([`--timeout-ms=${ms}`], ["touch", "ran"]);
        expect([ms, outcome.code, outcome.stderr.trim().split("\n").length]).toEqual([ms, 125, 1]);
      }
      expect(existsSync(environment.path("ran"))).toBe(false);
    }),
  );

  test(
    "that passes after the child has exited is not recorded: sh -c 'sleep 5 & exit 3' with linger beyond the time-out",
    inEdges(async (environment) => {
      const options = ["--timeout-ms", "200", "--linger-ms", "500"];
      const outcome = await environment.runWith(options, ["bash", "-c", "(exec -a edge-holder sleep 30) & exit 3"]);
      expect(outcome.code).toBe(3);
      const { receipt, events } = environment.lastRun();
      expect([receipt.state, receipt.terminated]).toEqual(["completed", null]);
      expect(events.filter(({ type }) => type === "limit")).toEqual([]);
      expect(environment.named("edge-holder")).toHaveLength(1);
      for (const { pid } of environment.named("edge-holder")) process.kill(pid, "SIGKILL");
    }),
  );

  test(
    "is the first reason when a budget is reached while the tree is being stopped",
    inEdges(async (environment) => {
      const script = "trap 'seq 100000; exit 0' TERM; while :; do sleep 0.01; done";
      const options = ["--timeout-ms", "200", "--max-output-bytes", "1000"];
      const outcome = await environment.runWith(options, ["sh", "-c", script]);
      expect(outcome.code).toBe(124);
      const { receipt, stdout, stderr } = environment.lastRun();
      expect([receipt.state, stdout.length + stderr.length]).toEqual(["timed_out", 1000]);
      expect(receipt.streams.stdout).toMatchObject({ ended: "budget", complete: false });
    }),
  );

  test(
    "reaches a process in a pid namespace of its own, and one behind captured stdin: yes | … sleep 50",
    inEdges(async (environment) => {
      const { value, ms } = await timed(environment.run("yes | ashctl run --timeout-ms 300 -- sleep 50; echo $?"));
      expect(value.stdout).toEndWith("124\n");
      expect(ms).toBeLessThan(2000);
      const options = ["--timeout-ms", "300", "--kill-after-ms", "200"];
      const space = await timed(environment.runWith(options, ["unshare", "-pf", "sleep", "60"]));
      // An ordinary user may not make one.
      if (space.value.code !== 1) expect(space.value.code).toBe(124);
      expect(space.ms).toBeLessThan(2500);
      expect(environment.processes()).toEqual([]);
    }),
  );

  test(
    "of an outer run ends the inner one and its child: ashctl run --timeout-ms 500 -- sh -c 'ash sleep 50'",
    inEdges(async (environment) => {
      const script = "ash bash -c 'exec -a edge-inner sleep 50'; :";
      const outcome = await environment.runWith(["--timeout-ms", "500"], ["bash", "-c", script]);
      expect(outcome.code).toBe(124);
      expect(environment.named("edge-inner")).toEqual([]);
      const runs = environment.runs();
      expect(runs.map(({ receipt }) => receipt.state)).toEqual(["timed_out", "cancelled"]);
    }),
  );
});

describe.skipIf(process.platform !== "linux")("a process that is not of the run is never signalled", () => {
  const OPTIONS = "--timeout-ms 300 --kill-after-ms 100";

  test(
    "though it is in the same process group and session, or was started by the same shell",
    inEdges(async (environment) => {
      const outcome = await environment.run(
        `trap '' TERM; sleep 60 >/dev/null 2>&1 & echo $! >bystander; trap 'echo caught >>caught' TERM
ashctl run ${OPTIONS} -- sh -c 'trap "" TERM; sleep 61' >/dev/null; echo $?`,
      );
      expect(outcome).toMatchObject({ code: 0, stdout: "124\n" });
      expect(existsSync(environment.path("caught"))).toBe(false);
      const pid = Number(environment.read("bystander"));
      expect(isAlive(pid)).toBe(true);
      process.kill(pid, "SIGKILL");
      expect(environment.lastRun().receipt.terminated).toEqual({ signalled: 2, killed: 2, survivors: [] });
    }),
  );

  test(
    "though it is a child of the process that became ash: process substitutions, and what they start later",
    inEdges(async (environment) => {
      const helper = "echo $BASHPID >>pids; sleep 60 & echo $! >>pids; wait";
      const outcome = await environment.run(
        `exec ashctl run ${OPTIONS} -- sleep 61 3< <(exec 2>/dev/null; ${helper}) 4> >(exec >/dev/null 2>&1; ${helper})`,
      );
      expect(outcome.code).toBe(124);
      const pids = readFileSync(environment.path("pids"), "utf8").trim().split("\n").map(Number);
      expect(pids).toHaveLength(4);
      for (const pid of pids) expect([pid, isAlive(pid)]).toEqual([pid, true]);
      for (const pid of pids) process.kill(pid, "SIGKILL");
      expect(environment.lastRun().receipt.terminated).toEqual({ signalled: 1, killed: 0, survivors: [] });
    }),
  );

  test(
    "though its parent ended and it became a child of ash: 3< <(sleep 60 & sleep 0.2)",
    inEdges(async (environment) => {
      const orphan = "(exec -a edge-foreign sleep 60) >/dev/null 2>&1 & echo $! >pid; sleep 0.1";
      for (const command of [
        "exec ashctl run --timeout-ms 500 --kill-after-ms 100 -- sleep 61",
        `exec ashctl run --timeout-ms 500 --kill-after-ms 100 -- sh -c 'trap "" TERM; sleep 61; sleep 61'`,
      ]) {
        expect((await environment.run(`${command} 3< <(${orphan})`)).code).toBe(124);
        const pid = Number(environment.read("pid"));
        expect([command, isAlive(pid)]).toEqual([command, true]);
        process.kill(pid, "SIGKILL");
      }
      const cancelled = environment.startScript(`exec ash sleep 61 3< <(${orphan})`);
      await waitUntil(() => environment.processes().some(({ words }) => words.join(" ") === "sleep 61"), "the child");
      await waitUntil(
        () => !environment.processes().some(({ words }) => words.join(" ") === "sleep 0.1"),
        "the orphan",
      );
      cancelled.signal("SIGTERM");
      expect(await cancelled.ended).toBe(143);
      expect(environment.named("edge-foreign")).toHaveLength(1);
      for (const { pid } of environment.named("edge-foreign")) process.kill(pid, "SIGKILL");
    }),
  );

  test(
    "though it belongs to another run of the same program at the same time",
    inEdges(async (environment) => {
      const other = environment.start(["ash", "sh", "-c", "until [ -e done ]; do sleep 0.02; done; echo fine"]);
      await waitUntil(() => environment.runDirectories().length === 1, "the other run");
      expect((await environment.runWith(OPTIONS.split(" "), ["sh", "-c", "sleep 60"])).code).toBe(124);
      environment.write("done", "");
      expect(await other.ended).toBe(0);
      expect(environment.runs().map(({ receipt }) => receipt.state)).toEqual(["completed", "timed_out"]);
    }),
  );
});
