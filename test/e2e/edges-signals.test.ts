import { describe, expect, test } from "bun:test";
import { join, resolve } from "node:path";
import { type EdgeEnvironment, inEdges, isAlive, timed } from "../helpers/edges.ts";
import { waitUntil } from "../helpers/wait-until.ts";

const COUNTER = join(resolve(import.meta.dir, "../fixtures"), "signal-counter.py");
const NUMBERS = { SIGHUP: 1, SIGINT: 2, SIGQUIT: 3, SIGTERM: 15 } as const;
type Cancelling = keyof typeof NUMBERS;

/** A child that logs each signal to `log` and cleans up for so long. */
const counter = (seconds: number, code = 0) => ["python3", COUNTER, "log", String(seconds), String(code)];
const logOf = (environment: EdgeEnvironment) => environment.read("log").trim().split("\n");

/** The journal's signals: `received SIGINT`, `sent SIGINT`. */
function signalsOf(environment: EdgeEnvironment): string[] {
  return environment
    .lastRun()
    .events.flatMap((event) => (event.type === "signal" ? [`${event.direction} ${event.signal}`] : []));
}

describe.skipIf(process.platform !== "linux")("a signal to ash alone", () => {
  test.each(Object.keys(NUMBERS) as Cancelling[])(
    "reaches the child exactly once, which may clean up, and cancels the run: %s",
    (name) =>
      inEdges(async (environment) => {
        const started = environment.start(["ash", ...counter(0.5, 9)]);
        await environment.waitForFile("log.ready");
        started.signal(name);
        expect(await started.ended).toBe(128 + NUMBERS[name]);
        expect(logOf(environment)).toEqual([name, "clean"]);
        const { receipt, stdout } = environment.lastRun();
        expect(receipt).toMatchObject({ state: "cancelled", exit: { kind: "code", code: 9 } });
        expect(signalsOf(environment)).toEqual([`received ${name}`, `sent ${name}`]);
        expect(stdout.toString()).toEndWith(`${name}\nclean\n`);
        const answer = await started.stdout;
        expect(answer).toContain("state=cancelled exit=code:9");
        expect(answer).toContain("stdout| clean");
        expect(await started.stderr).toBe("");
      })(),
  );

  test.each(Object.keys(NUMBERS) as Cancelling[])("ends a child that does not handle it: %s", (name) =>
    inEdges(async (environment) => {
      const started = environment.start(["ash", "sh", "-c", "echo partial; echo $$ >pid; exec sleep 60"]);
      await environment.waitForFile("pid");
      await waitUntil(() => environment.runDirectories().length === 1, "the run");
      started.signal(name);
      const { value, ms } = await timed(started.ended);
      expect([value, ms < 1500]).toEqual([128 + NUMBERS[name], true]);
      const { receipt, stdout } = environment.lastRun();
      expect(receipt).toMatchObject({ state: "cancelled", exit: { kind: "signal", signal: name } });
      expect(stdout.toString()).toBe("partial\n");
      expect(await started.stdout).toContain("stdout| partial");
    })(),
  );

  test(
    "gives a child that ignores it the grace time, then its tree is killed: trap '' INT TERM",
    inEdges(async (environment) => {
      const script = "trap '' INT TERM; (exec -a edge-ignorer sleep 60) & echo x >ready; wait; sleep 60";
      const started = environment.start(["ashctl", "run", "--kill-after-ms", "300", "--", "bash", "-c", script]);
      await environment.waitForFile("ready");
      started.signal("SIGINT");
      const { value, ms } = await timed(started.ended);
      expect(value).toBe(130);
      expect(ms).toBeGreaterThan(290);
      expect(ms).toBeLessThan(2500);
      expect(environment.named("edge-ignorer")).toEqual([]);
      const { receipt } = environment.lastRun();
      expect(receipt).toMatchObject({ state: "cancelled", exit: { signal: "SIGKILL" }, terminated: { survivors: [] } });
    }),
  );

  test(
    "when it comes a second time kills at once a child that ignores it",
    inEdges(async (environment) => {
      for (const name of ["SIGINT", "SIGTERM"] as const) {
        const started = environment.start(["ashctl", "run", "--kill-after-ms", "20000", "--", ...counter(30)]);
        await environment.waitForFile("log.ready");
        started.signal(name);
        await environment.waitForFile("log");
        started.signal(name);
        const { value, ms } = await timed(started.ended);
        expect(value).toBe(128 + NUMBERS[name]);
        expect(ms).toBeLessThan(1500);
        expect(logOf(environment)).toEqual([name]);
        const { receipt } = environment.lastRun();
        expect(receipt).toMatchObject({ state: "cancelled", exit: { kind: "signal", signal: "SIGKILL" } });
        expect(receipt.terminated).toEqual({ signalled: 1, killed: 1, survivors: [] });
        await environment.run("rm log log.ready");
      }
    }),
  );

  test(
    "stops what the child left behind, in whatever session",
    inEdges(async (environment) => {
      const script = "(exec -a edge-left sleep 60) & setsid bash -c 'exec -a edge-left sleep 60' & echo x >ready; wait";
      const started = environment.start(["ash", "bash", "-c", script]);
      await environment.waitForFile("ready");
      await waitUntil(() => environment.named("edge-left").length === 2, "both");
      started.signal("SIGTERM");
      expect(await started.ended).toBe(143);
      expect(environment.processes()).toEqual([]);
      expect(environment.lastRun().receipt.state).toBe("cancelled");
    }),
  );

  test(
    "that is SIGUSR1, SIGUSR2 or SIGWINCH is passed on once and changes nothing",
    inEdges(async (environment) => {
      const started = environment.start(["ash", ...counter(0, 5)]);
      await environment.waitForFile("log.ready");
      const names = ["SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGUSR1"] as const;
      for (const [index, name] of names.entries()) {
        started.signal(name);
        const lines = async () => (await environment.waitForFile("log")).split("\n").length;
        await waitUntil(async () => (await lines()) === index + 2, `${name} in the log`);
      }
      // The child ends for a reason of its own.
      process.kill(Number(environment.read("log.ready")), "SIGTERM");
      expect(await started.ended).toBe(5);
      expect(logOf(environment)).toEqual([...names, "SIGTERM", "clean"]);
      expect(environment.lastRun().receipt).toMatchObject({ state: "completed", exit: { code: 5 } });
    }),
  );

  test(
    "in the middle of a flood is prompt: yes",
    inEdges(async (environment) => {
      const started = environment.start([
        "ashctl",
        "run",
        "--max-output-bytes",
        "0",
        "--",
        "sh",
        "-c",
        "echo x >ready; exec yes",
      ]);
      await environment.waitForFile("ready");
      started.signal("SIGTERM");
      const { value, ms } = await timed(started.ended);
      expect(value).toBe(143);
      expect(ms).toBeLessThan(1000);
      expect(environment.lastRun().receipt.state).toBe("cancelled");
    }),
  );

  test(
    "before the child could start or at any other moment leaves a code that is the signal's or the child's",
    inEdges(async (environment) => {
      environment.checksRuns = false;
      for (let delayMs = 0; delayMs < 40; delayMs += 2) {
        const started = environment.start(["ash", "sh", "-c", "exit 3"]);
        await Bun.sleep(delayMs);
        started.signal("SIGTERM");
        expect(await started.ended).toBeOneOf([3, 143, "SIGTERM"]);
        expect(await started.stderr).toBe("");
      }
    }),
  );

  test(
    "that the caller ignores stays ignored: nohup, trap '' HUP, trap '' INT of a background job",
    inEdges(async (environment) => {
      for (const [prefix, name] of [
        ["trap '' HUP; exec", "SIGHUP"],
        ["trap '' INT QUIT; exec", "SIGINT"],
        ["trap '' INT QUIT; exec", "SIGQUIT"],
        ["exec nohup", "SIGHUP"],
      ] as const) {
        const script = "echo $$ >ready; until [ -e go ]; do sleep 0.01; done; exit 6";
        const started = environment.startScript(`${prefix} ash sh -c '${script}'`);
        const child = Number(await environment.waitForFile("ready"));
        started.signal(name);
        process.kill(child, name);
        environment.write("go", "");
        expect([prefix, name, await started.ended]).toEqual([prefix, name, 6]);
        expect(environment.lastRun().receipt.state).toBe("completed");
        await environment.run("rm go ready");
      }
    }),
  );

  test(
    "to a background job of a shell without job control ends nothing: ash sleep 60 & kill -INT $!",
    inEdges(async (environment) => {
      const outcome = await environment.run(
        `ash sh -c 'echo x >ready; until [ -e go ]; do sleep 0.01; done; exit 6' >/dev/null & pid=$!
until [ -e ready ]; do sleep 0.01; done; kill -INT $pid; kill -QUIT $pid; touch go; wait $pid; echo $?`,
      );
      expect(outcome.stdout).toBe("6\n");
    }),
  );

  test(
    "goes through nested runs: ash ash sleep",
    inEdges(async (environment) => {
      const started = environment.start(["ash", "ash", "bash", "-c", "echo x >ready; exec -a edge-nested sleep 60"]);
      await environment.waitForFile("ready");
      await waitUntil(() => environment.named("edge-nested").length === 1, "the sleep");
      started.signal("SIGTERM");
      expect(await started.ended).toBe(143);
      expect(environment.named("edge-nested")).toEqual([]);
      const runs = environment.runs();
      expect(runs.map(({ receipt }) => [receipt.state, receipt.exit])).toEqual([
        ["cancelled", { kind: "code", code: 143, signal: null }],
        ["cancelled", { kind: "signal", code: null, signal: "SIGTERM" }],
      ]);
    }),
  );

  test(
    "while the streams are still held open after the child's end keeps the child's result",
    inEdges(async (environment) => {
      const started = environment.start([
        "ashctl",
        "run",
        "--linger-ms",
        "20000",
        "--",
        "bash",
        "-c",
        "echo out; (exec -a edge-holder sleep 60) & exit 4",
      ]);
      await waitUntil(() => environment.runDirectories().length === 1, "the run");
      await waitUntil(() => environment.named("edge-holder").length === 1, "the holder");
      const { pid: child } = environment.named("edge-holder")[0]!;
      await waitUntil(() => !environment.processes().some(({ words }) => words.includes("echo out")), "the end");
      await Bun.sleep(50);
      started.signal("SIGTERM");
      const { value, ms } = await timed(started.ended);
      expect(ms).toBeLessThan(3500);
      expect(value).toBeOneOf([4, 143]);
      const { receipt, stdout } = environment.lastRun();
      expect(receipt.exit).toEqual({ kind: "code", code: 4, signal: null });
      expect(stdout.toString()).toBe("out\n");
      if (isAlive(child)) process.kill(child, "SIGKILL");
    }),
  );
});

describe.skipIf(process.platform !== "linux")("Ctrl-C at a terminal", () => {
  test(
    "reaches the child exactly once, and it may clean up for 2.5 s and end by itself",
    inEdges(async (environment) => {
      const { status, output } = await environment.onPty(
        ["ash", ...counter(2.5)],
        [{ exists: environment.path("log.ready") }, { type: "\x03" }],
      );
      expect(logOf(environment)).toEqual(["SIGINT", "clean"]);
      const { receipt } = environment.lastRun();
      expect(receipt.exit).toEqual({ kind: "code", code: 0, signal: null });
      expect(receipt.terminated).toBeNull();
      expect(status).toBe(0);
      expect(output).toContain("stdout| clean");
      expect(signalsOf(environment)).toEqual(["received SIGINT"]);
    }),
  );

  test(
    "of a child that ends with it is a cancelled run: sleep 60",
    inEdges(async (environment) => {
      // The signal and the child's end come in the same moment, in either order: several times.
      for (const [key, name] of [
        ["\x03", "SIGINT"],
        ["\x1c", "SIGQUIT"],
        ["\x03", "SIGINT"],
        ["\x03", "SIGINT"],
        ["\x03", "SIGINT"],
        ["\x03", "SIGINT"],
      ] as const) {
        const argv = ["ash", "sh", "-c", "echo x >ready; exec sleep 60"];
        const steps = [{ exists: environment.path("ready") }, { pauseMs: 100 }, { type: key }];
        const { status, output } = await environment.onPty(argv, steps);
        expect(status).toBe(128 + NUMBERS[name]);
        expect(environment.lastRun().receipt).toMatchObject({
          state: "cancelled",
          exit: { kind: "signal", signal: name },
        });
        expect(output).toContain(`state=cancelled exit=signal:${name}`);
        await environment.run("rm ready");
      }
    }),
  );

  test(
    "typed again within a second kills a child that ignores it, and not before",
    inEdges(async (environment) => {
      const steps = [
        { exists: environment.path("log.ready") },
        { type: "\x03" },
        { exists: environment.path("log") },
        { pauseMs: 1200 },
        { type: "\x03" },
        { pauseMs: 200 },
        { type: "\x03" },
      ];
      const { value, ms } = await timed(environment.onPty(["ash", ...counter(30)], steps));
      expect(value.status).toBe(130);
      expect(ms).toBeLessThan(5000);
      expect(environment.read("log")).toStartWith("SIGINT\nSIGINT\n");
      const { receipt } = environment.lastRun();
      expect(receipt).toMatchObject({ state: "cancelled", exit: { kind: "signal", signal: "SIGKILL" } });
    }),
  );

  test(
    "is a word to an interpreter, whose later end is its own: python3 -i, Ctrl-C, exit(7)",
    inEdges(async (environment) => {
      const program = `import sys
while True:
    try:
        line = input('> ')
        if line == 'go': sys.exit(7)
        print('got ' + line)
    except KeyboardInterrupt:
        open('interrupted', 'a').write('x')
    except EOFError:
        sys.exit(8)`;
      environment.write("repl.py", program);
      const steps = [
        { pauseMs: 300 },
        { type: "hello\n" },
        { pauseMs: 100 },
        { type: "\x03" },
        { exists: environment.path("interrupted") },
        { pauseMs: 2200 },
        { type: "go\n" },
      ];
      const { status } = await environment.onPty(["ash", "python3", "repl.py"], steps);
      expect(status).toBe(7);
      expect(environment.read("interrupted")).toBe("x");
      const { receipt, stdout } = environment.lastRun();
      expect(receipt).toMatchObject({ state: "completed", exit: { kind: "code", code: 7 }, stdin: { kind: "tty" } });
      expect(receipt.terminated).toBeNull();
      expect(stdout.toString()).toContain("got hello\n");
    }),
  );

  test(
    "in nested runs ends both once: ash ash sleep 60",
    inEdges(async (environment) => {
      const argv = ["ash", "ash", ...counter(0.3, 3)];
      const { status } = await environment.onPty(argv, [{ exists: environment.path("log.ready") }, { type: "\x03" }]);
      expect(logOf(environment)).toEqual(["SIGINT", "clean"]);
      // The exit follows the key within the grace time: it counts as its answer, or as the child's own end.
      expect(status).toBeOneOf([3, 130]);
      for (const { receipt } of environment.runs()) expect(receipt.exit.kind).toBe("code");
    }),
  );

  test(
    "reaches a run behind a script, which goes on as it decides: bash -c 'ash sleep 60; echo code $?'",
    inEdges(async (environment) => {
      const steps = [{ exists: environment.path("ready") }, { pauseMs: 100 }, { type: "\x03" }];
      const argv = ["bash", "-c", "trap : INT; ash sh -c 'echo x >ready; exec sleep 60'; echo code $?"];
      const { output } = await environment.onPty(argv, steps);
      expect(output).toContain("code 130");
      expect(environment.lastRun().receipt).toMatchObject({ exit: { kind: "signal", signal: "SIGINT" } });
    }),
  );
});

describe.skipIf(process.platform !== "linux")("job control", () => {
  const SHELL = ["bash", "--norc", "--noprofile", "-i"];

  test(
    "works: Ctrl-Z stops child and ash, fg goes on",
    inEdges(async (environment) => {
      const script = "echo $$ >ready; i=0; until [ -e go ]; do sleep 0.02; done; echo went on; exit 3";
      const steps = [
        { type: `PS1='PROMPT$ '; ash sh -c '${script}'\n` },
        { exists: environment.path("ready") },
        { pauseMs: 200 },
        { type: "\x1a" },
        { expect: "Stopped" },
        { expect: "PROMPT$ " },
        { type: "jobs; grep State /proc/$(cat ready)/status\n" },
        { expect: "T (stopped)" },
        { type: "touch go; fg\n" },
        { expect: "state=completed exit=code:3" },
        { type: "echo code=$?\n" },
        { expect: "code=3" },
        { type: "exit\n" },
      ];
      await environment.onPty(SHELL, steps);
      expect(environment.lastRun().stdout.toString()).toBe("went on\n");
      expect(environment.lastRun().receipt).toMatchObject({ state: "completed", exit: { code: 3 } });
    }),
  );

  test(
    "works in the background: Ctrl-Z, bg, and Ctrl-C reaches only the foreground",
    inEdges(async (environment) => {
      const script = "echo $$ >ready; until [ -e go ]; do sleep 0.02; done; echo went on";
      const steps = [
        { type: `PS1='PROMPT$ '; ash sh -c '${script}'\n` },
        { exists: environment.path("ready") },
        { pauseMs: 200 },
        { type: "\x1a" },
        { expect: "Stopped" },
        { expect: "PROMPT$ " },
        { type: "bg\n" },
        { type: "sleep 60\n" },
        { pauseMs: 200 },
        { type: "\x03" },
        { type: "touch go; wait; echo all=done\n" },
        { expect: "all=done" },
        { type: "exit\n" },
      ];
      const { output } = await environment.onPty(SHELL, steps);
      expect(output).toContain("state=completed");
      expect(environment.lastRun().stdout.toString()).toBe("went on\n");
    }),
  );

  test(
    "works for a child that reads the terminal: ash cat, Ctrl-Z, fg, Ctrl-D",
    inEdges(async (environment) => {
      const steps = [
        { type: "PS1='PROMPT$ '; ash sh -c 'echo x >ready; cat'\n" },
        { exists: environment.path("ready") },
        { type: "one\n" },
        { pauseMs: 200 },
        { type: "\x1a" },
        { expect: "Stopped" },
        { expect: "PROMPT$ " },
        { type: "fg\n" },
        { pauseMs: 200 },
        { type: "two\n\x04" },
        { expect: "state=completed" },
        { type: "exit\n" },
      ];
      await environment.onPty(SHELL, steps);
      expect(environment.lastRun().stdout.toString()).toBe("one\ntwo\n");
    }),
  );

  test(
    "stops a background child that reads the terminal, and fg goes on: ash cat &",
    inEdges(async (environment) => {
      const steps = [
        { type: "PS1='PROMPT$ '; ash sh -c 'echo x >ready; cat' &\n" },
        { exists: environment.path("ready") },
        { pauseMs: 200 },
        { type: "jobs\n" },
        { expect: "Stopped" },
        { expect: "PROMPT$ " },
        { type: "fg\n" },
        { pauseMs: 200 },
        { type: "text\n\x04" },
        { expect: "state=completed" },
        { type: "exit\n" },
      ];
      await environment.onPty(SHELL, steps);
      expect(environment.lastRun().stdout.toString()).toBe("text\n");
    }),
  );

  test(
    "of a shell under ash is that shell's: ash bash -i, Ctrl-C ends its foreground job only",
    inEdges(async (environment) => {
      const steps = [
        { pauseMs: 300 },
        { type: "echo x >started; sleep 60\n" },
        { exists: environment.path("started") },
        { pauseMs: 200 },
        { type: "\x03" },
        { pauseMs: 100 },
        { type: "echo $? >after\n" },
        { exists: environment.path("after") },
        { type: "exit 7\n" },
      ];
      const { status } = await environment.onPty(["ash", ...SHELL], steps);
      expect([status, environment.read("after")]).toEqual([7, "130\n"]);
      expect(environment.lastRun().receipt).toMatchObject({ state: "completed", exit: { code: 7 } });
    }),
  );

  test(
    "a hangup of the terminal ends the run, and the receipt is there",
    inEdges(async (environment) => {
      environment.write(
        "hangup.py",
        `import os,pty,time,sys
pid, master = pty.fork()
if pid == 0: os.execvp('ash', ['ash', 'sh', '-c', 'echo x >ready; exec sleep 60'])
while not os.path.exists('ready'): time.sleep(0.01)
time.sleep(0.2)
os.close(master)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))`,
      );
      const { value, ms } = await timed(environment.run("python3 hangup.py"));
      expect(value.stdout).toBe("129\n");
      expect(ms).toBeLessThan(3500);
      expect(environment.lastRun().receipt).toMatchObject({ state: "cancelled", exit: { signal: "SIGHUP" } });
    }),
  );
});
