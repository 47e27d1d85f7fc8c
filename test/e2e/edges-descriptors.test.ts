import { describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { type EdgeEnvironment, inEdges, timed } from "../helpers/edges.ts";
import { ASH, ASHCTL, parseDocument } from "../helpers/test-environment.ts";

const SUBSETS = Array.from({ length: 8 }, (_, set) => [0, 1, 2].filter((fd) => (set >> fd) & 1));
const closing = (fds: readonly number[]) => fds.map((fd) => (fd === 0 ? "<&-" : `${fd}>&-`)).join(" ");

describe.skipIf(process.platform !== "linux")("descriptors 0, 1 and 2 that the caller closed", () => {
  test.each(SUBSETS.map((fds) => [fds]))("leave the child its code, and the journal its lines: %j closed", (fds) =>
    inEdges(async (environment) => {
      for (const [command, code] of [
        ["ash sh -c 'echo out; echo err >&2; exit 9'", 9],
        ["ash true", 0],
        ["ash nosuchprogram", 127],
        ["ash sh -c 'kill -9 $$'", 137],
        ["ashctl run --tee -- sh -c 'echo out; echo err >&2; exit 9'", 9],
        ["ashctl run --timeout-ms 100 -- sleep 50", 124],
        ["ashctl run --stdin capture -- sh -c 'cat; exit 9'", 9],
      ] as const) {
        const outcome = await environment.run(`${command} ${closing(fds)}; echo $? >code`);
        expect([command, environment.read("code").trim()]).toEqual([command, String(code)]);
        const { receipt, stdout } = environment.lastRun();
        expect(receipt.state).toBe(code === 124 ? "timed_out" : code === 127 ? "failed_to_start" : "completed");
        if (command.includes("echo out")) expect(stdout.toString()).toBe(fds.includes(1) ? "" : "out\n");
        expect(receipt.streams.stdout!.ended).toBe(fds.includes(1) ? "closed" : "eof");
        // Nothing of ours goes to a number that happened to be free.
        if (fds.includes(1)) expect(outcome.stdout).toBe("");
        if (fds.includes(2)) expect(outcome.stderr).toBe("");
      }
    })(),
  );

  test(
    "and opened again by the child's shell are the child's: ash sh -c 'exec <f 0<&0; readlink /proc/$$/fd/0' <&-",
    inEdges(async (environment) => {
      environment.write("f", "");
      await environment.run("ash sh -c 'exec <f; readlink /proc/$$/fd/0' <&-");
      expect(environment.lastRun().stdout.toString()).toBe(`${environment.path("f")}\n`);
    }),
  );
});

/** For each limit of descriptors: the limit, the exit code, and how often answer and stderr name EMFILE as the failure. */
async function withLimits(environment: EdgeEnvironment, limits: readonly number[], command: string) {
  const script = `for n in $*; do (ulimit -n $n; ${command} >out 2>err); c=$?
echo $n $c $(grep -c 'failure:.*EMFILE' out) $(wc -l <err); done`;
  const outcome = await environment.run(script, {}, ...limits.map(String));
  const lines = outcome.stdout.trim().split("\n");
  const answers = lines.map((line) => line.split(" ").map(Number));
  expect(answers.map(([limit]) => limit)).toEqual([...limits]);
  return answers;
}

describe.skipIf(process.platform !== "linux")("few descriptors", () => {
  test(
    "mean the child's code, or 125 with EMFILE and nothing half-made: ulimit -n 5 to 64",
    inEdges(async (environment) => {
      const limits = [5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 18, 20, 24, 32, 64];
      const answers = await withLimits(environment, limits, "ash sh -c 'cat </dev/null; echo hi; exit 3'");
      for (const [limit, code, failures, complaints] of answers) {
        expect([limit, code, failures, complaints]).toEqual(code === 3 ? [limit, 3, 0, 0] : [limit, 125, 1, 0]);
      }
      // What does not start leaves no run, or one that says so.
      const states = environment.runs().map(({ receipt }) => receipt.state);
      const started = answers.filter(([, code]) => code === 3);
      expect(states.filter((state) => state === "completed")).toHaveLength(started.length);
      expect(answers.at(-1)).toEqual([64, 3, 0, 0]);
    }),
  );

  test(
    "mean the same with captured stdin, --tee and holders of the streams: ulimit -n 5 to 32",
    inEdges(async (environment) => {
      for (const command of [
        "echo in | ash sh -c 'cat; exit 3'",
        "ashctl run --tee -- sh -c 'echo out; exit 3'",
        "ashctl run --linger-ms 20 -- bash -c '(exec -a edge-holder sleep 60) & exit 3'",
      ]) {
        for (const [limit, code, failures] of await withLimits(
          environment,
          [5, 7, 9, 11, 13, 15, 17, 20, 32],
          command,
        )) {
          expect([command, limit, code]).toEqual([command, limit, code === 3 ? 3 : 125]);
          // With --tee there is no answer on stdout that could say it.
          if (code === 125 && !command.includes("--tee"))
            expect([command, limit, failures]).toEqual([command, limit, 1]);
        }
        for (const { pid } of environment.named("edge-holder")) process.kill(pid, "SIGKILL");
        await environment.assertNothingLeft();
      }
    }),
  );
});

describe("our own output", () => {
  test(
    "is whole on a non-blocking stdout with a slow reader, and its flags stay",
    inEdges(async (environment) => {
      const outcome = await environment.python(
        `import fcntl,os,select,subprocess,time
r, w = os.pipe()
fcntl.fcntl(w, 1031, 4096)
fcntl.fcntl(w, fcntl.F_SETFL, fcntl.fcntl(w, fcntl.F_GETFL) | os.O_NONBLOCK)
flags = fcntl.fcntl(w, fcntl.F_GETFL)
p = subprocess.Popen(['ash', 'sh', '-c', 'for i in 1 2 3 4 5 6 7 8 9; do head -c 1500 /dev/zero | tr "\\\\0" x; echo; done; exit 6'], stdout=w)
same = True
other = os.dup(w)
while p.poll() is None and len(select.select([r], [], [], 0.01)[0]) == 0:
    pass
data = b''
os.close(w)
os.set_blocking(r, False)
while True:
    ended = p.poll() is not None
    same = same and fcntl.fcntl(other, fcntl.F_GETFL) == flags
    try: data += os.read(r, 700)
    except BlockingIOError:
        if ended: break
    time.sleep(0.002)
print(p.returncode, same, data.count(b'x' * 1500), data.endswith(b'\\n'))`,
      );
      expect(outcome).toMatchObject({ stdout: "6 True 9 True\n", stderr: "" });
    }),
  );

  test(
    "may have no reader: the child's code is returned, and nothing is said",
    inEdges(async (environment) => {
      for (const [script, code] of [
        ["ash sh -c 'seq 5; exit 4' | true; echo $PIPESTATUS", 4],
        ["ash seq 5 | true; echo $PIPESTATUS", 0],
        ["ash sh -c 'sleep 0.1; exit 4' | exec 1>&-; echo $PIPESTATUS", 4],
        ["trap '' PIPE; ash sh -c 'exit 4' | true; echo $PIPESTATUS", 4],
        ["ASH_FMT=json ash sh -c 'exit 4' | true; echo $PIPESTATUS", 4],
      ] as const) {
        expect([script, await environment.run(script)]).toMatchObject([script, { stdout: `${code}\n`, stderr: "" }]);
        expect(environment.lastRun().receipt.exit).toMatchObject({ kind: "code", code });
      }
    }),
  );

  test(
    "on a full sink is one line on stderr, and the child's code: >/dev/full",
    inEdges(async (environment) => {
      const outcome = await environment.run("ash sh -c 'seq 3; exit 3' >/dev/full; echo $?");
      expect(outcome.stdout).toBe("3\n");
      expect(outcome.stderr.trim().split("\n")).toHaveLength(1);
      expect(outcome.stderr).toContain("ENOSPC");
      const both = await environment.run("ash sh -c 'exit 3' >/dev/full 2>/dev/full; echo $?");
      expect(both).toMatchObject({ stdout: "3\n", stderr: "" });
      expect(environment.lastRun().receipt.exit.code).toBe(3);
    }),
  );
});

describe("what ashctl shows", () => {
  test(
    "ends quietly with its reader, and fails in one line on a full sink: ashctl show latest stdout | head -1",
    inEdges(async (environment) => {
      await environment.ash(["seq", "200000"]);
      for (const words of ["show latest stdout", "show latest merged", "show latest stdout --json", "list"]) {
        const early = await environment.run(`ashctl ${words} | head -c 1; echo`);
        expect([words, early.stderr, early.stdout.length]).toEqual([words, "", 2]);
        const gone = await environment.run(`ashctl ${words} | true`);
        expect([words, gone.stderr]).toEqual([words, ""]);
        const full = await environment.run(`ashctl ${words} >/dev/full`);
        expect([words, full.code === 0, full.stderr.trim().split("\n").length]).toEqual([words, false, 1]);
      }
    }),
  );

  test(
    "is whole for a slow reader: as much as for a file",
    inEdges(async (environment) => {
      await environment.ash(["seq", "100000"]);
      for (const words of ["show latest stdout", "show latest stdout --json", "list --json"]) {
        // How long the query took is the only thing that differs between two answers.
        const still = "sed 's/\"query_ms\":[0-9.]*//'";
        const script = `ashctl ${words} | ${still} >file; ashctl ${words} | { sleep 0.3; ${still} | cmp - file; } && wc -c <file`;
        const outcome = await environment.run(script);
        expect([words, outcome.code, outcome.stderr]).toEqual([words, 0, ""]);
        expect(Number(outcome.stdout)).toBeGreaterThan(100);
      }
    }),
  );
});

describe("--report-fd", () => {
  test(
    "takes the answer, and stdout stays empty; with and without --tee",
    inEdges(async (environment) => {
      const plain = await environment.run("ashctl run --report-fd 3 -- sh -c 'echo out; exit 2' 3>report");
      expect(plain).toMatchObject({ code: 2, stdout: "", stderr: "" });
      expect(environment.read("report")).toStartWith("✗ state=completed exit=code:2 ");
      expect(environment.read("report")).toContain("stdout| out");
      const tee = await environment.run(
        "ashctl run --tee --json --report-fd 5 -- sh -c 'echo out; echo err >&2' 5>report",
      );
      expect(tee).toMatchObject({ code: 0, stdout: "out\n", stderr: "err\n" });
      expect(parseDocument("completion", environment.read("report"))).toMatchObject({ exit: { code: 0 } });
      const stderr = await environment.run("ashctl run --report-fd 2 -- echo out");
      expect([stderr.code, stderr.stdout, stderr.stderr.includes("stdout| out")]).toEqual([0, "", true]);
    }),
  );

  test(
    "that is not open is 125 in one line, and nothing runs",
    inEdges(async (environment) => {
      for (const fd of ["3", "9", "63", "1000000", "-1", "x", ""]) {
        const outcome = await environment.run(`ashctl run --report-fd=${fd} -- touch ran`);
        expect([fd, outcome.code, outcome.stderr.trim().split("\n").length]).toEqual([fd, 125, 1]);
      }
      const closed = await environment.run("ashctl run --report-fd 1 -- touch ran >&-");
      expect(closed.code).toBe(125);
      expect(existsSync(environment.path("ran"))).toBe(false);
      expect(environment.runDirectories()).toEqual([]);
    }),
  );

  test(
    "is not in the child, while the caller's others are",
    inEdges(async (environment) => {
      const list = "for n in /proc/$$/fd/*; do echo $(basename $n); done";
      await environment.run(`ashctl run --report-fd 5 -- bash -c '${list}' 4>other 5>report 6>third`);
      const listed = environment.lastRun().stdout.toString().split("\n");
      expect([listed.includes("4"), listed.includes("5"), listed.includes("6")]).toEqual([true, false, true]);
      const high = await environment.run(`ashctl run --report-fd 200 -- bash -c '${list}' 200>report`);
      expect(high.code).toBe(0);
      expect(environment.lastRun().stdout.toString()).not.toMatch(/^200$/m);
    }),
  );

  test(
    "may be a pipe whose reader has gone, or full: the child's code counts",
    inEdges(async (environment) => {
      const full = await environment.run("ashctl run --report-fd 3 -- sh -c 'exit 5' 3>/dev/full; echo $?");
      expect(full.stdout).toBe("5\n");
      const gone = await environment.run("ashctl run --report-fd 3 -- sh -c 'sleep 0.1; exit 5' 3> >(exit); echo $?");
      expect(gone.stdout).toBe("5\n");
      expect(gone.stderr).toBe("");
    }),
  );
});

describe.skipIf(process.platform !== "linux")("--tee", () => {
  const tee = (...argv: string[]) => [ASHCTL, "run", "--tee", "--", ...argv];

  test(
    "passes both streams on, byte for byte, and prints nothing else",
    inEdges(async (environment) => {
      environment.write("bytes", Buffer.from(Array.from({ length: 300_000 }, (_, i) => (i * 31) % 256)));
      const outcome = await environment.spawn(tee("sh", "-c", "cat bytes; cat bytes >&2; exit 3"));
      expect(outcome.code).toBe(3);
      const { stdout, stderr } = environment.lastRun();
      expect(outcome.stdoutBytes.equals(stdout)).toBe(true);
      expect(outcome.stderrBytes.equals(stderr)).toBe(true);
      expect(stdout).toHaveLength(300_000);
    }),
  );

  test(
    "is live: what the child writes can be read before it ends",
    inEdges(async (environment) => {
      const script =
        "ashctl run --tee -- sh -c 'echo first; until [ -e go ]; do sleep 0.01; done; echo second' | { read x; touch go; echo $x; cat; }";
      expect(await environment.run(script)).toMatchObject({ code: 0, stdout: "first\nsecond\n" });
    }),
  );

  test(
    "has everything stored when the reader leaves early, and is quick: seq 100000 | head -1",
    inEdges(async (environment) => {
      const whole = Array.from({ length: 100_000 }, (_, i) => `${i + 1}\n`).join("");
      for (const [reader, output] of [
        ["head -1", "1\n"],
        ["true", ""],
        ["sh -c 'exec <&-; sleep 0.2'", ""],
      ] as const) {
        const script = `ashctl run --tee -- sh -c 'seq 100000; exit 3' | ${reader}; echo $PIPESTATUS`;
        const { value, ms } = await timed(environment.run(script));
        expect([reader, value.stdout, value.stderr]).toEqual([reader, `${output}3\n`, ""]);
        expect(ms).toBeLessThan(2000);
        expect(environment.lastRun().stdout.toString()).toBe(whole);
        expect(environment.lastRun().receipt.storage).toMatchObject({ complete: true, lost_bytes: 0 });
      }
    }),
  );

  test(
    "goes on to stderr when stdout's reader has gone, and the other way round",
    inEdges(async (environment) => {
      const script = "for i in $(seq 200); do echo $i; echo e$i >&2; done";
      const outcome = await environment.run(`{ ashctl run --tee -- sh -c '${script}' | true; } 2>err; wc -l <err`);
      expect(outcome.stdout.trim()).toBe("200");
      const other = await environment.run(`ashctl run --tee -- sh -c '${script}' 2> >(exit) | wc -l`);
      expect(other.stdout.trim()).toBe("200");
      for (const { stdout, stderr } of environment.runs()) {
        expect([stdout.toString().split("\n").length, stderr.toString().split("\n").length]).toEqual([201, 201]);
      }
    }),
  );

  test(
    "works for grep and head behind it: 2>&1 | grep FAIL | head -5",
    inEdges(async (environment) => {
      const script =
        "ashctl run --tee -- sh -c 'for i in $(seq 3000); do echo FAIL $i >&2; echo ok $i; done' 2>&1 | grep FAIL | head -5";
      const { value, ms } = await timed(environment.run(script));
      expect(value.stdout.split("\n")).toHaveLength(6);
      expect(ms).toBeLessThan(2000);
      expect(environment.lastRun().stderr.toString().split("\n")).toHaveLength(3001);
    }),
  );

  test(
    "with a reader that is slow loses nothing, and makes the child wait",
    inEdges(async (environment) => {
      const reader = `import os,time,hashlib
h, n = hashlib.sha256(), 0
while True:
    data = os.read(0, 20000)
    if not data: break
    h.update(data); n += len(data)
    if n < 400000: time.sleep(0.005)
print(n, h.hexdigest())`;
      environment.write("reader.py", reader);
      const outcome = await environment.run("ashctl run --tee -- head -c 3000000 /dev/zero | python3 reader.py");
      const { stdout, receipt } = environment.lastRun();
      expect(outcome.stdout).toBe(`3000000 ${receipt.streams.stdout!.sha256}\n`);
      expect(stdout).toHaveLength(3_000_000);
    }),
  );

  test(
    "with a reader that does not read at all ends with the time-out all the same",
    inEdges(async (environment) => {
      const outcome = await environment.python(
        `import os,subprocess,time
r, w = os.pipe()
start = time.monotonic()
code = subprocess.run(['ashctl', 'run', '--tee', '--timeout-ms', '500', '--kill-after-ms', '500', '--', 'yes'], stdout=w).returncode
os.close(w)
print(code, time.monotonic() - start < 3)`,
      );
      expect(outcome.stdout).toBe("124 True\n");
      expect(environment.lastRun().receipt).toMatchObject({ state: "timed_out", exit: { signal: "SIGTERM" } });
    }),
  );

  test(
    "with a reader that does not read can be interrupted, also when the child has ended before",
    inEdges(async (environment) => {
      for (const [words, codes] of [
        ["'yes'", [143]],
        ["'sh', '-c', 'head -c 900000 /dev/zero; touch ended; exit 3'", [3, 143]],
      ] as const) {
        const outcome = await environment.python(
          `import os,signal,subprocess,time
r, w = os.pipe()
p = subprocess.Popen(['ashctl', 'run', '--tee', '--kill-after-ms', '300', '--', ${words}], stdout=w)
time.sleep(0.6)
p.send_signal(signal.SIGTERM)
try: print(p.wait(3))
except subprocess.TimeoutExpired: print('hangs'); p.send_signal(signal.SIGTERM); time.sleep(.5); p.kill()`,
        );
        expect([...codes] as number[]).toContain(Number(outcome.stdout));
      }
    }),
  );

  test(
    "on a full sink stores everything: >/dev/full",
    inEdges(async (environment) => {
      const outcome = await environment.run("ashctl run --tee -- sh -c 'seq 1000; exit 3' >/dev/full; echo $?");
      expect(outcome.stdout).toBe("3\n");
      expect(environment.lastRun().stdout).toHaveLength(3893);
    }),
  );

  test(
    "passes no byte on beyond the budget's run: exit 125, the prefix stored",
    inEdges(async (environment) => {
      const outcome = await environment.runWith(["--tee", "--max-output-bytes", "1000"], ["seq", "100000"]);
      expect(outcome.code).toBe(125);
      const { stdout } = environment.lastRun();
      expect(stdout).toHaveLength(1000);
      expect(outcome.stdoutBytes.subarray(0, 1000).equals(stdout)).toBe(true);
    }),
  );

  test(
    "keeps O_NONBLOCK of a shared stdout as it was, and works with it",
    inEdges(async (environment) => {
      const outcome = await environment.python(
        `import fcntl,os,subprocess,threading
r, w = os.pipe()
fcntl.fcntl(w, fcntl.F_SETFL, fcntl.fcntl(w, fcntl.F_GETFL) | os.O_NONBLOCK)
flags = fcntl.fcntl(w, fcntl.F_GETFL)
got = []
def read():
    while True:
        data = os.read(r, 65536)
        if not data: break
        got.append(len(data))
t = threading.Thread(target=read); t.start()
code = subprocess.run(['ashctl', 'run', '--tee', '--', 'head', '-c', '2000000', '/dev/zero'], stdout=w).returncode
same = fcntl.fcntl(w, fcntl.F_GETFL) == flags
os.close(w); t.join()
print(code, same, sum(got))`,
      );
      expect(outcome).toMatchObject({ stdout: "0 True 2000000\n", stderr: "" });
    }),
  );

  test(
    "of a run with a background holder returns, and its late output is stored and not passed on",
    inEdges(async (environment) => {
      const script = "(until [ -e go ]; do sleep 0.02; done; echo late; echo x >end) & echo now";
      const { value, ms } = await timed(environment.spawn(tee("sh", "-c", script)));
      expect(value).toMatchObject({ code: 0, stdout: "now\n", stderr: "" });
      expect(ms).toBeLessThan(1000);
      environment.write("go", "");
      await environment.waitForFile("end");
      await environment.assertNothingLeft();
    }),
  );
});

test(
  "without descriptors of its own the image still answers: ash --version <&- 2>&-",
  inEdges(async (environment: EdgeEnvironment) => {
    const outcome = await environment.run('"$1" --version <&- 2>&-; "$1" --version >&-; echo $?', {}, ASH);
    expect(outcome.stdout).toMatch(/^ash \d.*\n[01]\n$/);
  }),
);
