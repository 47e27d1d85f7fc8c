import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { type EdgeEnvironment, inEdges, isAlive, timed } from "../helpers/edges.ts";

const sha256 = (bytes: string | Uint8Array) => new Bun.CryptoHasher("sha256").update(bytes).digest("hex");
const storedStdin = (environment: EdgeEnvironment) => readFileSync(join(environment.lastRun().directory, "stdin.bin"));
const hasStdinFile = (environment: EdgeEnvironment) => existsSync(join(environment.lastRun().directory, "stdin.bin"));

/** The last run read all of `input` through a pipe of ours, and the evidence has it. */
function expectCaptured(environment: EdgeEnvironment, input: string | Uint8Array, reason = "eof"): void {
  const { receipt, events } = environment.lastRun();
  expect(receipt.stdin).toEqual({ kind: "captured", path: null, offset: null });
  expect(storedStdin(environment).equals(Buffer.from(input))).toBe(true);
  expect(receipt.streams.stdin).toMatchObject({ bytes: Buffer.from(input).length, sha256: sha256(input) });
  const ends = events.filter((event) => event.type === "stdin_end");
  expect(ends).toMatchObject([{ bytes: Buffer.from(input).length, reason }]);
}

function expectInherited(environment: EdgeEnvironment, kind: string): void {
  const { receipt } = environment.lastRun();
  expect([receipt.stdin.kind, receipt.streams.stdin, hasStdinFile(environment)]).toEqual([kind as never, null, false]);
}

describe.skipIf(process.platform !== "linux")("stdin that nobody else reads is captured", () => {
  test.each(["x", "", "no newline\nlast", "\0\xff\n"])("byte for byte: printf %j | ash cat", (input) =>
    inEdges(async (environment) => {
      environment.write("in", Buffer.from(input, "latin1"));
      expect(await environment.runCaptured("cat in | ash cat")).toMatchObject({ code: 0, stderr: "" });
      expect(environment.lastRun().stdout.toString("latin1")).toBe(input);
      expectCaptured(environment, Buffer.from(input, "latin1"));
    })(),
  );

  test(
    "through a pipe that the child can reopen: test -p /dev/stdin, cat /dev/stdin",
    inEdges(async (environment) => {
      await environment.runCaptured("printf x | ash sh -c 'test -p /dev/stdin && echo pipe; cat /dev/stdin'");
      expect(environment.lastRun().stdout.toString()).toBe("pipe\nx");
      expectCaptured(environment, "x");
      await environment.runCaptured("printf y | ash sh -c 'cat /proc/self/fd/0'");
      expect(environment.lastRun().stdout.toString()).toBe("y");
      expectCaptured(environment, "y");
    }),
  );

  test(
    "in any size: 3 MB of random bytes, and 65535, 65536, 65537",
    inEdges(async (environment) => {
      for (const size of [3_000_000, 65_535, 65_536, 65_537]) {
        const outcome = await environment.runCaptured(`head -c ${size} /dev/urandom | tee in | ash cat`);
        expect(outcome.stderr).toBe("");
        const input = readFileSync(environment.path("in"));
        expect(environment.lastRun().stdout.equals(input)).toBe(true);
        expectCaptured(environment, input);
      }
    }),
  );

  test(
    "or in doubt inherited, and whole either way, however busy the machine is: 12 times four at once",
    inEdges(async (environment) => {
      await environment.run(
        "for i in $(seq 12); do for j in 1 2 3 4; do printf $j | ash cat >/dev/null & done; wait; done",
      );
      const runs = environment.runs();
      expect(runs).toHaveLength(48);
      for (const { receipt, stdout } of runs) {
        const captured = receipt.stdin.kind === "captured";
        expect([receipt.streams.stdin?.bytes, stdout.length]).toEqual([captured ? 1 : undefined, 1]);
        expect(receipt.stdin.kind).toBeOneOf(["captured", "pipe"]);
      }
      // A shell closes its own end a moment after it has started us: rarely is that too late.
      expect(runs.filter(({ receipt }) => receipt.stdin.kind === "captured").length).toBeGreaterThan(24);
    }),
  );

  test(
    "from a here string and a here document as the shell gives them: ash cat <<<x",
    inEdges(async (environment) => {
      for (const [script, text] of [
        ["ash cat <<<x", "x\n"],
        ["ash cat <<E\na\nb\nE", "a\nb\n"],
        ["ash wc -c <<<$(seq 30000)", "168894\n"],
      ] as const) {
        expect(await environment.run(script)).toMatchObject({ code: 0, stderr: "" });
        expect(environment.lastRun().stdout.toString()).toBe(text);
        expect(environment.lastRun().receipt.stdin.kind).toBeOneOf(["file", "captured", "pipe"]);
      }
    }),
  );

  test(
    "with memory that does not grow: head -c 100000000 /dev/zero | ash cat",
    inEdges(async (environment) => {
      const peakAfter = async (bytes: number) => {
        const script = `head -c ${bytes} /dev/zero | ash sh -c 'cat >/dev/null; grep VmHWM /proc/$PPID/status'`;
        expect((await environment.runCaptured(script)).code).toBe(0);
        return Number(/\d+/.exec(environment.lastRun().stdout.toString())![0]);
      };
      const small = await peakAfter(1_000_000);
      const large = await peakAfter(100_000_000);
      expect(large - small).toBeLessThan(40_000);
      expect(environment.lastRun().receipt.streams.stdin).toMatchObject({ bytes: 100_000_000, complete: true });
    }),
  );

  test(
    "and a producer waits while the child does not read: yes | ash sh -c 'until [ -e go ]; do sleep 0.01; done'",
    inEdges(async (environment) => {
      environment.write(
        "producer",
        `import os,sys
sent = 0
try:
    while True:
        sent += os.write(1, b'y' * 4096)
        os.pwrite(9, b'%012d' % sent, 0)
except BrokenPipeError:
    pass`,
      );
      const started = environment.startScript(
        "exec 9<>sent; python3 producer 9>&9 | ash sh -c 'until [ -e go ]; do sleep 0.01; done; head -c 5000000 | wc -c'",
      );
      const sent = () => (existsSync(environment.path("sent")) ? Number(environment.read("sent")) : 0);
      await environment.waitForFile("sent");
      // It stands still once all buffers are full.
      let last = -1;
      for (let same = 0; same < 10; await Bun.sleep(20)) {
        same = sent() === last ? same + 1 : 0;
        last = sent();
      }
      expect(sent()).toBeLessThan(1_500_000);
      environment.write("go", "");
      expect(await started.ended).toBe(0);
      expect(environment.lastRun().stdout.toString()).toBe("5000000\n");
      expect(environment.lastRun().receipt.state).toBe("completed");
    }),
  );
});

describe.skipIf(process.platform !== "linux")("stdin that somebody else reads as well is inherited", () => {
  test.each([
    ["printf 'a\\nb\\nc\\n' | { read a; ash cat; }", "b\nc\n"],
    ["printf 'a\\nb\\n' | { ash sh -c 'read x; echo $x'; cat >rest; }", "a\n"],
    ["printf 'a\\nb\\n' | (ash sh -c 'read x; echo $x'; cat >rest)", "a\n"],
    ["printf 'a\\nb\\n' >in; cat in | bash -c 'ash sh -c \"read x; echo \\$x\"; cat >rest'", "a\n"],
  ])("and the child gets what it would get: %s", (script, output) =>
    inEdges(async (environment) => {
      expect((await environment.run(script)).code).toBe(0);
      expect(environment.lastRun().stdout.toString()).toBe(output);
      if (script.includes(">rest")) expect(environment.read("rest")).toBe("b\n");
      expectInherited(environment, "pipe");
    })(),
  );

  test(
    "and a loop over a pipe gets all its lines: printf '1\\n2\\n3\\n' | while read x; do ash true; done",
    inEdges(async (environment) => {
      const loops = await environment.run(
        "printf '1\\n2\\n3\\n' | while read x; do ash true >/dev/null; echo $x; done",
      );
      expect(loops).toMatchObject({ stdout: "1\n2\n3\n", stderr: "" });
      expect(environment.runs().map(({ receipt }) => receipt.stdin.kind)).toEqual(["pipe", "pipe", "pipe"]);
      const nested = await environment.run(
        "seq 20 | while read x; do sh -c 'ash true >/dev/null; :'; echo $x; done | wc -l",
      );
      expect(nested.stdout.trim()).toBe("20");
    }),
  );

  test(
    "and what ash head -n1 left in the pipe is the next reader's, as without ash",
    inEdges(async (environment) => {
      const script = (ash: string) =>
        `(for i in 1 2 3; do echo $i; sleep 0.1; done) | { ${ash} head -n1 >/dev/null; cat; }`;
      const bare = await environment.run(script(""));
      const wrapped = await environment.run(script("ash"));
      expect(bare.stdout).toBe("2\n3\n");
      // By the time ash has started, head may find two lines.
      expect(["2\n3\n", "3\n", ""]).toContain(wrapped.stdout);
      expectInherited(environment, "pipe");
    }),
  );

  test(
    "and an idle pipe of a caller that lives is not touched: subprocess.Popen(['ash', …], stdin=r)",
    inEdges(async (environment) => {
      const outcome = await environment.python(
        `import os,subprocess
r, w = os.pipe()
os.write(w, b'mine')
print(subprocess.run(['ash', 'sh', '-c', 'exit 3'], stdin=r, stdout=subprocess.DEVNULL).returncode)
os.close(w)
print(os.read(r, 100))`,
      );
      expect(outcome.stdout).toBe("3\nb'mine'\n");
      expectInherited(environment, "pipe");
    }),
  );
});

describe.skipIf(process.platform !== "linux")("stdin that is no anonymous pipe is inherited", () => {
  test(
    "a regular file with its offset, which moves on for the next reader",
    inEdges(async (environment) => {
      environment.write("in", "a\nb\nc\n");
      const outcome = await environment.run("{ read a; ash head -n1 >/dev/null; cat; } <in");
      expect(outcome).toMatchObject({ stdout: "c\n", code: 0 });
      expect(environment.lastRun().stdout.toString()).toBe("b\n");
      expect(environment.lastRun().receipt.stdin).toEqual({ kind: "file", path: environment.path("in"), offset: 2 });
      const update = await environment.run("{ ash sh -c 'read x; echo $x >&0'; } <>in; cat in");
      expect(update.stdout).toEndWith("a\na\nc\n");
    }),
  );

  test(
    "/dev/null, /dev/zero, a directory, and a closed one",
    inEdges(async (environment) => {
      for (const [redirection, kind] of [
        ["</dev/null", "null"],
        ["</dev/zero", "other"],
        ["<.", "other"],
        ["<&-", "closed"],
      ] as const) {
        expect(await environment.run(`ash true ${redirection}`)).toMatchObject({ code: 0, stderr: "" });
        expectInherited(environment, kind);
      }
      await environment.run("ash readlink /proc/self/fd/0 <&-");
      expect(environment.lastRun().stdout.toString()).not.toContain(".agent-shell");
    }),
  );

  test(
    "a socket, and a named FIFO: what the child leaves stays there",
    inEdges(async (environment) => {
      const outcome = await environment.python(
        `import socket,subprocess
a, b = socket.socketpair(); b.sendall(b'hello world'); 
subprocess.run(['ash', 'python3', '-c', 'import os; print(os.read(0, 5))'], stdin=a, stdout=subprocess.DEVNULL)
print(a.recv(100))`,
      );
      expect(outcome).toMatchObject({ stdout: "b' world'\n", stderr: "" });
      expect(environment.lastRun().stdout.toString()).toBe("b'hello'\n");
      expectInherited(environment, "socket");
      const fifo = await environment.run(
        "mkfifo f; (printf 'a\\nb\\n' >f &); { ash sh -c 'read x; echo $x' >/dev/null; cat; } <f",
      );
      expect(fifo).toMatchObject({ stdout: "b\n", stderr: "" });
      expectInherited(environment, "pipe");
      // Nobody else has it open, and it is inherited all the same.
      await environment.run("(printf 'c\\n' >f &); ash cat <f");
      expect(environment.lastRun().stdout.toString()).toBe("c\n");
      expectInherited(environment, "pipe");
    }),
  );
});

describe("--stdin", () => {
  test(
    "null gives /dev/null, whatever the caller has",
    inEdges(async (environment) => {
      const outcome = await environment.run("printf x | { ashctl run --stdin null -- readlink /proc/self/fd/0; cat; }");
      expect(outcome.stdout).toEndWith("x");
      expect(environment.lastRun().stdout.toString()).toBe("/dev/null\n");
      expectInherited(environment, "null");
      await environment.run("ashctl run --stdin null -- cat <&-");
      expect(environment.lastRun().receipt).toMatchObject({ stdin: { kind: "null" }, exit: { code: 0 } });
    }),
  );

  test(
    "inherit leaves a pipe of our own alone",
    inEdges(async (environment) => {
      await environment.run("printf xyz | ashctl run --stdin inherit -- cat");
      expect(environment.lastRun().stdout.toString()).toBe("xyz");
      expectInherited(environment, "pipe");
    }),
  );

  test(
    "capture takes what auto would leave: a shared pipe, a file, a socket, /dev/null",
    inEdges(async (environment) => {
      await environment.run("printf 'a\\nb\\n' | { ashctl run --stdin capture -- cat; cat; }");
      expectCaptured(environment, "a\nb\n");
      environment.write("in", "file\n");
      await environment.run("ashctl run --stdin capture -- cat <in");
      expectCaptured(environment, "file\n");
      expect(environment.lastRun().stdout.toString()).toBe("file\n");
      await environment.python(
        `import socket,subprocess
a, b = socket.socketpair(); b.sendall(b'hello'); b.close()
subprocess.run(['ashctl', 'run', '--stdin', 'capture', '--', 'cat'], stdin=a)`,
      );
      expectCaptured(environment, "hello");
      await environment.run("ashctl run --stdin capture -- cat </dev/null");
      expectCaptured(environment, "");
    }),
  );

  test(
    "capture of a closed stdin is a child with an empty or closed one, and its own code",
    inEdges(async (environment) => {
      expect((await environment.run("ashctl run --stdin capture -- sh -c 'cat; exit 4' <&-")).code).toBe(4);
    }),
  );

  test(
    "has no other value: --stdin both is 125 in one line, and nothing runs",
    inEdges(async (environment) => {
      for (const options of [["--stdin", "both"], ["--stdin="], ["--stdin", "null", "--stdin-file", "x"]]) {
        const outcome = await environment.runWith(options, ["touch", "ran"]);
        expect([outcome.code, outcome.stderr.trim().split("\n").length]).toEqual([125, 1]);
      }
      expect(existsSync(environment.path("ran"))).toBe(false);
      expect(environment.runDirectories()).toEqual([]);
    }),
  );
});

describe("--stdin-file", () => {
  test(
    "gives the child the file from its start, found from the caller's directory whatever --cwd says",
    inEdges(async (environment) => {
      environment.write("in", "text\n");
      environment.write("sub/in", "wrong\n");
      const outcome = await environment.runWith(["--stdin-file", "in", "--cwd", "sub"], ["cat"]);
      expect(outcome).toMatchObject({ code: 0, stderr: "" });
      const run = environment.lastRun();
      expect(run.stdout.toString()).toBe("text\n");
      expect(run.receipt.stdin).toEqual({ kind: "file", path: environment.path("in"), offset: 0 });
      const absolute = await environment.runWith(["--stdin-file", environment.path("sub/in")], ["cat"]);
      expect(absolute.code).toBe(0);
      expect(environment.lastRun().stdout.toString()).toBe("wrong\n");
    }),
  );

  test(
    "that is missing, a directory or unreadable is 125 in one line, and nothing runs",
    inEdges(async (environment) => {
      environment.giveToNobody();
      environment.write("secret", "x", 0o000);
      for (const file of ["missing", ".", "secret", "missing/x"]) {
        const argv = ["ashctl", "run", "--stdin-file", file, "--", "touch", "ran"];
        const outcome = await environment.asNobody(argv);
        expect([file, outcome.code, outcome.stderr.trim().split("\n").length]).toEqual([file, 125, 1]);
        expect(outcome.stderr).toContain(file);
      }
      expect(existsSync(environment.path("ran"))).toBe(false);
      expect(environment.runDirectories()).toEqual([]);
    }),
  );
});

describe.skipIf(process.platform !== "linux")("a pipe that outlives the child", () => {
  test(
    "and that it stopped reading is no error: yes | ash head -1",
    inEdges(async (environment) => {
      for (const [script, output] of [
        ["yes | ash head -1", "y\n"],
        ["yes | ash sh -c 'exec <&-; sleep 0.2; echo closed'", "closed\n"],
        ["seq 1000000 | ash sed 3q", "1\n2\n3\n"],
        ["yes | ash true", ""],
      ] as const) {
        const { value, ms } = await timed(environment.runCaptured(script));
        expect(value).toMatchObject({ code: 0, stderr: "" });
        expect(ms).toBeLessThan(4000);
        const { receipt, stdout, events } = environment.lastRun();
        expect(stdout.toString()).toBe(output);
        expect([script, receipt.streams.stdin?.ended]).toEqual([script, "closed"]);
        expect(events.filter((event) => event.type === "stdin_end")).toHaveLength(1);
        expect([receipt.state, receipt.exit.code, receipt.storage.complete]).toEqual(["completed", 0, true]);
        expect(receipt.storage.lost_bytes).toBe(0);
      }
    }),
  );

  test(
    "of a producer that never closes keeps nothing, and the producer is not signalled: ash true < <(sleep 100)",
    inEdges(async (environment) => {
      for (const command of [
        "ash true",
        "ashctl run --stdin capture -- true",
        "ash sh -c 'read -t 0.1 x; exit 0'",
        "ashctl run --stdin inherit -- true",
      ]) {
        const script = `exec 5< <(echo $BASHPID >pid; exec sleep 100 2>/dev/null); ${command} <&5 >/dev/null; echo $?`;
        const { value, ms } = await timed(environment.run(script));
        expect(value).toMatchObject({ stdout: "0\n", stderr: "" });
        expect(ms).toBeLessThan(2000);
        const pid = Number(environment.read("pid"));
        expect([command, isAlive(pid)]).toEqual([command, true]);
        process.kill(pid, "SIGKILL");
      }
    }),
  );

  test(
    "is the run's own child where the shell became ash, and is left alone: bash -c 'exec ash true < <(sleep 100)'",
    inEdges(async (environment) => {
      for (const [command, code] of [
        ["ash true", 0],
        ["ashctl run --timeout-ms 300 -- cat", 124],
        ["ashctl run --timeout-ms 300 --stdin capture -- sleep 50", 124],
        ["ashctl run --max-output-bytes 10 -- seq 1000", 125],
      ] as const) {
        const script = `exec ${command} < <(echo $BASHPID >pid; exec sleep 100 2>/dev/null) >/dev/null`;
        const { value, ms } = await timed(environment.run(script));
        expect([command, value.code, value.stderr]).toEqual([command, code, ""]);
        expect(ms).toBeLessThan(3500);
        const pid = Number(environment.read("pid"));
        expect([command, isAlive(pid)]).toEqual([command, true]);
        process.kill(pid, "SIGKILL");
      }
    }),
  );

  test(
    "into a reader ends with the time-out, and the producer lives: ashctl run --timeout-ms 500 -- cat < <(sleep 100)",
    inEdges(async (environment) => {
      const script = `exec 5< <(echo $BASHPID >pid; exec sleep 100 2>/dev/null); ashctl run --timeout-ms 500 -- cat <&5 >/dev/null`;
      const { value, ms } = await timed(environment.run(script));
      expect(value.code).toBe(124);
      expect(ms).toBeLessThan(3000);
      expect(environment.lastRun().receipt.state).toBe("timed_out");
      const pid = Number(environment.read("pid"));
      expect(isAlive(pid)).toBe(true);
      process.kill(pid, "SIGKILL");
    }),
  );
});

describe("the stdin budget", () => {
  test(
    "ends the run when there is more, and the child has seen exactly the stored prefix: 5,000 bytes of 1,000",
    inEdges(async (environment) => {
      for (const [options, env] of [
        [["--max-stdin-bytes", "1000"], {}],
        [[], { ASH_MAX_STDIN_BYTES: "1000" }],
      ] as const) {
        const outcome = await environment.runCaptured(
          `head -c 5000 /dev/urandom | tee in | ashctl run ${options.join(" ")} -- sh -c 'cat; echo eof >&2'`,
          { env },
        );
        expect(outcome.code).toBe(125);
        const { receipt, stdout, stderr, events } = environment.lastRun();
        const prefix = readFileSync(environment.path("in")).subarray(0, 1000);
        expect(stdout.equals(prefix)).toBe(true);
        expect(stderr.toString()).toBe("eof\n");
        expectCaptured(environment, prefix, "budget");
        expect([receipt.state, receipt.limits.max_stdin_bytes]).toEqual(["input_limited", 1000]);
        expect(receipt.streams.stdin).toMatchObject({ ended: "budget", complete: false });
        expect(events.filter((event) => event.type === "limit")).toHaveLength(1);
      }
    }),
  );

  test(
    "stops a child that goes on after its end of file: ashctl run --max-stdin-bytes 10 -- sh -c 'cat; sleep 100'",
    inEdges(async (environment) => {
      const { value, ms } = await timed(
        environment.runCaptured("yes | ashctl run --max-stdin-bytes 10 -- sh -c 'cat >seen; sleep 100'"),
      );
      expect(value.code).toBe(125);
      expect(ms).toBeLessThan(3000);
      expect(environment.read("seen")).toBe("y\ny\ny\ny\ny\n");
      expect(environment.lastRun().receipt).toMatchObject({ state: "input_limited", exit: { kind: "signal" } });
    }),
  );

  test(
    "is not reached by exactly its bytes, nor by what the child never had to read",
    inEdges(async (environment) => {
      const exact = await environment.runCaptured(
        "head -c 1000 /dev/zero | ashctl run --max-stdin-bytes 1000 -- wc -c",
      );
      expect(exact.code).toBe(0);
      expect(environment.lastRun().receipt).toMatchObject({
        state: "completed",
        streams: { stdin: { complete: true } },
      });
      expect(environment.lastRun().stdout.toString()).toBe("1000\n");
      const one = await environment.runCaptured("head -c 1001 /dev/zero | ashctl run --max-stdin-bytes 1000 -- wc -c");
      expect(one.code).toBe(125);
      expect(environment.lastRun().stdout.toString()).toBe("1000\n");
      const none = await environment.runCaptured("head -c 5000 /dev/zero | ashctl run --max-stdin-bytes 0 -- wc -c");
      expect(none.code).toBe(0);
      const inherited = await environment.run(
        "head -c 5000 /dev/zero | ashctl run --stdin inherit --max-stdin-bytes 10 -- wc -c",
      );
      expect(inherited.code).toBe(0);
    }),
  );

  test(
    "that is no number is 125 in one line, and nothing runs: ASH_MAX_STDIN_BYTES=1k",
    inEdges(async (environment) => {
      for (const value of ["1k", "-1", "1.5", " 1", "9".repeat(40)]) {
        const outcome = await environment.ash(["touch", "ran"], { env: { ASH_MAX_STDIN_BYTES: value } });
        expect([value, outcome.code, outcome.stderr.trim().split("\n").length]).toEqual([value, 125, 1]);
        expect(outcome.stderr).toContain("ASH_MAX_STDIN_BYTES");
      }
      expect(existsSync(environment.path("ran"))).toBe(false);
      expect(statSync(environment.project).isDirectory()).toBe(true);
    }),
  );
});
