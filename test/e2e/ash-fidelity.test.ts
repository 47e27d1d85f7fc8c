/** The child's world is what exec from the caller would have given it: the bare command and `ash` are compared. */
import { describe, expect, test } from "bun:test";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { fromByteText } from "../../src/base/bytes.ts";
import { ASH, inEnvironment, isMissing, type Options, type TestEnvironment } from "../helpers/test-environment.ts";

interface State {
  argv: readonly (string | Buffer)[];
  env?: readonly (string | Buffer)[];
  cwd?: Buffer;
  /** Signal numbers. */
  ignore?: readonly number[];
  block?: readonly number[];
  close?: readonly number[];
  softFiles?: number;
}

const EXEC_AS = resolve(import.meta.dir, "../fixtures/exec-as.py");

/** Runs `argv`, its program being a path, as a process in the given state. */
function execAs(environment: TestEnvironment, state: State, options?: Options) {
  const base64 = (item: string | Buffer) => Buffer.from(item as string).toString("base64");
  const entries = state.env ?? Object.entries(environment.variables).map(([name, value]) => `${name}=${value}`);
  const { cwd, ...rest } = state;
  const spec = {
    ...rest,
    argv: state.argv.map(base64),
    env: entries.map(base64),
    ...(cwd === undefined ? {} : { cwd: cwd.toString("base64") }),
  };
  const file = join(environment.root, "state.json");
  writeFileSync(file, JSON.stringify(spec));
  return environment.spawn(["python3", EXEC_AS, file], options);
}

/** Runs `argv` bare and under `ash`, in the same state. Both exit with 0; gives both outputs. */
async function bareAndWrapped(environment: TestEnvironment, state: State): Promise<[bare: Buffer, wrapped: Buffer]> {
  const bare = await execAs(environment, state);
  const wrapped = await execAs(environment, { ...state, argv: [ASH, ...state.argv] });
  expect([bare.stderr, bare.code, wrapped.stderr, wrapped.code]).toEqual(["", 0, "", 0]);
  return [bare.stdoutBytes, environment.lastRun().stdout];
}

/** A shell script under `ash` ends as it does with real pipes: stdout, stderr and code. */
async function assertSameScript(environment: TestEnvironment, text: string): Promise<void> {
  const script = environment.write("script", text);
  const bare = await environment.python(
    `import subprocess,sys
run = subprocess.run(['sh', sys.argv[1]], capture_output=True)
sys.stdout.buffer.write(run.stdout); sys.stderr.buffer.write(run.stderr); sys.exit(run.returncode)`,
    {},
    script,
  );
  const wrapped = await environment.ash(["sh", script]);
  const run = environment.lastRun();
  expect({ stdout: run.stdout.toString(), stderr: run.stderr.toString(), code: wrapped.code }).toEqual({
    stdout: bare.stdout,
    stderr: bare.stderr,
    code: bare.code!,
  });
}

describe.skipIf(process.platform !== "linux")("what a program writes", () => {
  test.skipIf(isMissing("git"))(
    "is the same: git log -p",
    inEnvironment(async (environment) => {
      const identity = {
        GIT_AUTHOR_NAME: "a",
        GIT_AUTHOR_EMAIL: "a@b",
        GIT_COMMITTER_NAME: "a",
        GIT_COMMITTER_EMAIL: "a@b",
      };
      const env = { ...identity, GIT_CONFIG_NOSYSTEM: "1" };
      await environment.run(
        'git init -q . && for i in $(seq 20); do seq $((i * 1000)) $((i * 1000 + 999)) >f$((i % 5)); git add f*; git commit -qm "commit $i"; done',
        { env },
      );
      const bare = await environment.spawn(["git", "log", "-p"], { env });
      expect(bare.stdoutBytes.length).toBeGreaterThan(50_000);
      expect((await environment.ash(["git", "log", "-p"], { env })).code).toBe(0);
      expect(environment.lastRun().stdout.equals(bare.stdoutBytes)).toBe(true);
      expect((await environment.spawn(["git", "status", "--porcelain"], { env })).stdout).toBe("");
    }),
  );

  test.skipIf(isMissing("npm"))(
    "is the same: npm --version",
    inEnvironment(async (environment) => {
      const bare = await environment.spawn(["npm", "--version"]);
      expect(await environment.ash(["npm", "--version"])).toMatchObject({ code: 0, stderr: "" });
      expect(environment.lastRun().stdout.toString()).toBe(bare.stdout);
    }),
  );

  test(
    "is kept byte for byte: all 256 bytes on both streams, and 5,000 random ones through cat",
    inEnvironment(async (environment) => {
      const all = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
      const program = "import os; b = bytes(range(256)); os.write(1, b); os.write(2, b[::-1])";
      expect((await environment.ash(["python3", "-c", program])).code).toBe(0);
      expect(environment.lastRun().stdout).toEqual(all);
      expect(environment.lastRun().stderr).toEqual(Buffer.from(all).reverse());
      const random = crypto.getRandomValues(Buffer.alloc(5000));
      environment.write("random", random);
      await environment.ash(["cat", "random"]);
      expect(environment.lastRun().stdout).toEqual(random);
      await environment.ash(["cat"], { stdin: random });
      expect(environment.lastRun().stdout).toEqual(random);
    }),
  );

  test(
    "goes through pipes that can be opened again: echo >/dev/stdout, >>/proc/self/fd/1, tee /dev/stderr",
    inEnvironment(async (environment) => {
      await assertSameScript(
        environment,
        `echo first; echo second >/dev/stdout; echo third >>/proc/self/fd/1; echo e >/dev/stderr; echo f >/proc/self/fd/2
echo fourth | tee /dev/stderr; test -p /dev/stdout && echo pipe; test -p /proc/self/fd/2 && echo pipe; exit 4`,
      );
      expect(environment.lastRun().stdout.toString()).toBe("first\nsecond\nthird\nfourth\npipe\npipe\n");
    }),
  );

  test.skipIf(isMissing("make"))(
    "by make -j4 behind ash uses the outer make's job server",
    inEnvironment(async (environment) => {
      environment.write(
        "Makefile",
        'a:\n\t+@ash make b >/dev/null\nb: c d\nc d:\n\t@echo $@; echo "$$MAKEFLAGS" >&2\n',
      );
      const outcome = await environment.run("make -j4 a");
      expect(outcome).toMatchObject({ code: 0, stderr: "" });
      const run = environment.lastRun();
      expect(run.receipt.argv).toEqual(["make", "b"]);
      expect(run.stdout.toString()).toContain("c\n");
      expect(run.stderr.toString()).toContain("--jobserver");
      expect(run.stderr.toString()).not.toContain("warning");
    }),
  );
});

describe.skipIf(process.platform !== "linux")("the arguments", () => {
  const SHOW = ["/bin/sh", "-c", "cat /proc/$$/cmdline; :", "name"];

  test(
    "arrive as they are: empty ones, newlines, quotes, globs, other scripts",
    inEnvironment(async (environment) => {
      const args = [
        "",
        "a b",
        "x\ny",
        "*",
        "$HOME",
        ";",
        'a"b',
        "it's",
        "\\",
        "--",
        "-n",
        "é€😀",
        "\u202e",
        "\ufffd",
        "\t\r\u0001",
        "",
      ];
      const outcome = await environment.ash(["printf", "[%s]\\n", ...args]);
      expect(outcome.code).toBe(0);
      const run = environment.lastRun();
      expect(run.stdout.toString()).toBe(args.map((arg) => `[${arg}]\n`).join(""));
      expect(run.receipt.argv).toEqual(["printf", "[%s]\\n", ...args]);
    }),
  );

  test(
    "need not be UTF-8, and come back from the receipt byte for byte",
    inEnvironment(async (environment) => {
      const odd = [
        Buffer.from([0xff]),
        Buffer.from("caf\xe9", "latin1"),
        Buffer.from([0xed, 0xa0, 0x80]),
        Buffer.from([0xf0, 0x9f]),
      ];
      const argv = [...SHOW, "plain", "", ...odd];
      const [bare, wrapped] = await bareAndWrapped(environment, { argv });
      expect(wrapped).toEqual(bare);
      const { receipt } = environment.lastRun();
      expect(receipt.argv.map(fromByteText)).toEqual(argv.map((word) => Buffer.from(word as string)));
      expect(receipt.argv[4]).toBe("plain");
      expect(receipt.argv[6]).toEqual({ base64: "/w==" });
      const digest = new Bun.CryptoHasher("sha256").update(bare).digest("hex");
      expect(environment.lastRun().events[0]).toMatchObject({ argv_sha256: digest });
    }),
  );

  test(
    "may be 1.5 MB",
    inEnvironment(async (environment) => {
      const args = Array.from({ length: 1500 }, (_, i) => `${i}:`.padEnd(1000, "x"));
      expect((await environment.ash(["printf", "%s\\n", ...args])).code).toBe(0);
      expect(environment.lastRun().stdout.toString()).toBe(args.map((arg) => `${arg}\n`).join(""));
    }),
  );

  test(
    "may be as long as exec takes them: whatever ash can be started with, it can hand on",
    inEnvironment(async (environment) => {
      // A bisection for the longest command line that the system lets `ash` itself be started with.
      const outcome = await environment.python(
        `import subprocess,sys
ok, bad, codes = 0, 4000, set()
while bad - ok > 1:
    n = (ok + bad) // 2
    try: code = subprocess.run([sys.argv[1], 'true'] + ['x' * 1000] * n, stdout=subprocess.DEVNULL).returncode
    except OSError: bad = n
    else: ok = n; codes.add(code)
print(ok > 100, codes)
ones = lambda n: subprocess.run([sys.argv[1], 'true', 'x' * n], stdout=subprocess.DEVNULL).returncode
print(ones(131071))`,
        {},
        ASH,
      );
      expect(outcome).toMatchObject({ stdout: "True {0}\n0\n", stderr: "" });
    }),
  );
});

describe.skipIf(process.platform !== "linux")("the environment", () => {
  test(
    "arrives byte for byte: doubled names, odd names, entries without '=', bytes that are not UTF-8",
    inEnvironment(async (environment) => {
      const env = [
        "PATH=/usr/bin:/bin",
        "A=1",
        "A=2",
        "NOEQ",
        "=odd",
        "=",
        "",
        "EMPTY=",
        "with space=1",
        "1digit=é",
        "BASH_FUNC_f%%=() { echo f; }",
        "lines=a\nb\n",
        Buffer.from("BAD\xff=\xfe\xc3", "latin1"),
        "A=3",
        `LONG=${"x".repeat(100_000)}`,
      ];
      const [bare, wrapped] = await bareAndWrapped(environment, { argv: ["/bin/cat", "/proc/self/environ"], env });
      expect(bare.length).toBeGreaterThan(100_000);
      expect(wrapped.equals(bare)).toBe(true);
    }),
  );

  test(
    "may be empty",
    inEnvironment(async (environment) => {
      const [bare, wrapped] = await bareAndWrapped(environment, { argv: ["/bin/cat", "/proc/self/environ"], env: [] });
      expect([bare.length, wrapped.length]).toEqual([0, 0]);
    }),
  );

  test(
    "of the runtime reaches the child and changes nothing in ash: BUN_BE_BUN=1, BUN_OPTIONS=--bun, BUN_INSPECT=…",
    inEnvironment(async (environment) => {
      const env = [
        ...[
          "PATH=/usr/bin:/bin",
          `HOME=${environment.home}`,
          "BUN_BE_BUN=1",
          "BUN_OPTIONS=--bun --print 1",
          "BUN_INSPECT=ws://127.0.0.1:9/x?wait=1",
        ],
        ...[
          "BUN_INSPECT_CONNECT_TO=127.0.0.1:9",
          "BUN_INSPECT_PRELOAD=/no/such.js",
          "BUN_INSPECT_NOTIFY=unix:///no",
          "BUN_JSC_useJIT=0",
        ],
        ...[
          "BUN_JSC_dumpOptions=2",
          "BUN_JSC_unknown=1",
          "BUN_CONFIG_MAX_HTTP_REQUESTS=many",
          "BUN_CONFIG_VERBOSE_FETCH=1",
        ],
        ...[
          "BUN_FEATURE_FLAG_NO_ORPHANS=yes",
          "BUN_DEBUG=log",
          "BUN_DEBUG_QUIET_LOGS=0",
          "BUN_RUNTIME_TRANSPILER_CACHE_PATH=cache",
        ],
        ...[
          "BUN_INSTALL=install",
          "BUN_ENV=x",
          "BUN_GARBAGE_COLLECTOR_LEVEL=2",
          "BUN_STRICT_BUILTIN=1",
          "NODE_OPTIONS=--inspect",
        ],
        ...[
          "NODE_CHANNEL_FD=3",
          "NODE_ENV=test",
          "NODE_DEBUG=fs",
          "NODE_PATH=/no",
          "NODE_V8_COVERAGE=coverage",
          "DEBUG=*",
          "MIMALLOC_VERBOSE=1",
        ],
        ...[
          "JSC_useJIT=0",
          "JavaScriptCoreUseJIT=0",
          "JSC_SIGNAL_FOR_GC=0",
          "SIMDUTF_FORCE_IMPLEMENTATION=none",
          "UV_THREADPOOL_SIZE=1",
        ],
        ...["FORCE_COLOR=1", "TZ=Pacific/Auckland", "LC_ALL=xx", "MALLOC_ARENA_MAX=1", "DO_NOT_TRACK=1"],
      ];
      const [bare, wrapped] = await bareAndWrapped(environment, { argv: ["/bin/cat", "/proc/self/environ"], env });
      expect(wrapped.toString()).toBe(bare.toString());
      expect(wrapped.toString()).toBe(env.map((entry) => `${entry}\0`).join(""));
      expect(readdirSync(environment.project).sort()).toEqual([".agent-shell", ".git"]);
      const one = await execAs(environment, { argv: [ASH, "/bin/sh", "-c", "exit 9"], env });
      expect(one).toMatchObject({ code: 9, stderr: "" });
    }),
  );
});

describe.skipIf(process.platform !== "linux")("the working directory", () => {
  test(
    "need not be UTF-8",
    inEnvironment(async (environment) => {
      const name = Buffer.from(`${environment.project}/d\xff\xfe`, "latin1");
      mkdirSync(name);
      const [bare, wrapped] = await bareAndWrapped(environment, {
        argv: ["/bin/readlink", "-n", "/proc/self/cwd"],
        cwd: name,
      });
      expect(bare).toEqual(name);
      expect(wrapped).toEqual(bare);
      expect(fromByteText(environment.lastRun().receipt.cwd!)).toEqual(name);
    }),
  );

  const FILES: Record<string, string> = {
    ".env": "FROM_DOT_ENV=1\n",
    ".env.local": "FROM_DOT_ENV=1\n",
    ".env.production": "FROM_DOT_ENV=1\n",
    "bunfig.toml": 'preload = ["./preload.ts"]\n[run]\nbun = true\n',
    ".bunfig.toml": 'preload = ["./preload.ts"]\n',
    "preload.ts": 'require("node:fs").writeFileSync("preloaded", "");\n',
    "package.json": '{"name": "echo", "scripts": {"echo": "touch scripted"}, "type": "commonjs"}\n',
    "tsconfig.json": '{"extends": "./no-such.json"}\n',
    "jsconfig.json": "{",
    ".npmrc": "registry=http://127.0.0.1:9\n",
    "node_modules/bun/package.json": "{",
  };
  const prepare = (environment: TestEnvironment) => {
    for (const [name, text] of Object.entries(FILES)) environment.write(name, text);
    for (const name of [".bunfig.toml", ".npmrc"]) environment.write(join(environment.home, name), FILES[name]!);
  };

  test(
    "has no file that changes anything: .env, bunfig.toml with a preload, package.json, tsconfig.json",
    inEnvironment(async (environment) => {
      prepare(environment);
      expect(await environment.ash(["env"])).toMatchObject({ code: 0, stderr: "" });
      expect(environment.lastRun().stdout.toString()).not.toContain("FROM_DOT_ENV");
      expect(readdirSync(environment.project).sort()).toEqual(
        [".agent-shell", ".git", ...Object.keys(FILES).map((name) => name.split("/")[0]!)].sort(),
      );
    }),
  );

  test.skipIf(isMissing("strace"))(
    "has no file that is opened: .env, bunfig.toml, package.json, tsconfig.json",
    inEnvironment(async (environment) => {
      prepare(environment);
      const trace = join(environment.root, "trace");
      const outcome = await environment.run(
        'strace -f -s 500 -e trace=open,openat,openat2 -o "$1" ash /bin/echo hi',
        {},
        trace,
      );
      expect(outcome.code).toBe(0);
      const opened = readFileSync(trace, "utf8");
      expect(opened).toContain("receipt.json");
      for (const name of Object.keys(FILES)) expect(opened).not.toContain(name.split("/").at(-1)!);
    }),
  );

  test(
    "that has been deleted stops the runtime with an error, and the child does not run",
    inEnvironment(async (environment) => {
      const outcome = await environment.run(
        'mkdir d; cd d; rmdir ../d; ash /bin/sh -c "echo ran >$1"',
        {},
        join(environment.root, "ran"),
      );
      expect(outcome.code).not.toBe(0);
      expect(outcome.stderr).not.toBe("");
      expect(outcome.stderr).not.toContain("not found");
      expect(readdirSync(environment.root)).not.toContain("ran");
    }),
  );
});

describe.skipIf(process.platform !== "linux")("the process", () => {
  test(
    "is in the caller's process group, session and terminal",
    inEnvironment(async (environment) => {
      const script = "cut -d' ' -f5-8 /proc/self/stat; ash cut -d' ' -f5-8 /proc/self/stat >/dev/null; :";
      const bare = await environment.run(script);
      expect(environment.lastRun().stdout.toString()).toBe(bare.stdout);
      // A group of its own, inside a session of its own.
      const own = await environment.run(`setsid -w bash -c "${script}"`);
      expect(environment.lastRun().stdout.toString()).toBe(own.stdout);
      expect(own.stdout).not.toBe(bare.stdout);
    }),
  );

  test(
    "has the caller's umask, niceness and soft limit of open files",
    inEnvironment(async (environment) => {
      await environment.run("umask 027; nice -n 5 ash sh -c 'umask; nice'; :");
      expect(environment.lastRun().stdout.toString()).toBe("0027\n5\n");
      const bare = await environment.run(
        "ulimit -Sn 100; sh -c 'ulimit -Sn; ulimit -Hn'; ash sh -c 'ulimit -Sn; ulimit -Hn' >/dev/null; :",
      );
      expect(environment.lastRun().stdout.toString()).toBe(bare.stdout);
      expect(bare.stdout).toStartWith("100\n");
    }),
  );

  test(
    "reads from the terminal: /dev/tty and stdin under a pseudo-terminal",
    inEnvironment(async (environment) => {
      const outcome = await environment.python(
        `import os,pty,sys
pid, fd = pty.fork()
if pid == 0: os.execvp('ash', ['ash', 'sh', '-c', 'read a </dev/tty; read b; test -t 0 && test ! -t 1 && echo "$a-$b"; ps -o tpgid= -p $$ >/dev/null'])
os.write(fd, b'one\\ntwo\\n')
out = b''
try:
    while data := os.read(fd, 65536): out += data
except OSError: pass
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))`,
      );
      expect(outcome).toMatchObject({ code: 0, stderr: "" });
      const run = environment.lastRun();
      expect(run.stdout.toString()).toBe("one-two\n");
      expect(run.receipt.stdin).toEqual({ kind: "tty", path: null, offset: null });
    }),
  );
});

const bits = (numbers: readonly number[]) => numbers.reduce((set, number) => set | (1n << BigInt(number - 1)), 0n);

describe.skipIf(process.platform !== "linux")("the signals", () => {
  // All but KILL, STOP and the two that the C library keeps.
  const ALL = Array.from({ length: 64 }, (_, i) => i + 1).filter((number) => ![9, 19, 32, 33].includes(number));
  // The runtime catches these for itself before our code: crashes, and its threads' stop signal.
  const RUNTIME = [4, 5, 6, 7, 8, 11, 30, 31];
  const STATUS = ["/bin/cat", "/proc/self/status"];
  const sets = (status: Buffer) => {
    const of = (name: string) => BigInt(`0x${new RegExp(`${name}:\\s*([0-9a-f]+)`).exec(status.toString())![1]}`);
    return { ignored: of("SigIgn"), blocked: of("SigBlk") };
  };

  test.each<[caller: string, ignore: number[], block: number[]]>([
    ["nothing special", [], []],
    ["HUP and INT ignored", [1, 2], []],
    ["HUP, INT, TERM and a real-time signal blocked", [], [1, 2, 15, 34]],
    ["some ignored and others blocked", [1, 2, 3, 15, 20, 21, 22], [10, 12, 14, 17]],
    ["all that are not the runtime's own", ALL.filter((n) => !RUNTIME.includes(n)), ALL.filter((n) => n !== 30)],
  ])("keep the caller's dispositions and mask, but for SIGPIPE, SIGXFSZ and SIGCHLD: %s", (_, ignore, block) =>
    inEnvironment(async (environment) => {
      const [bare, wrapped] = (await bareAndWrapped(environment, { argv: STATUS, ignore, block })).map(sets);
      expect(bare).toEqual({ ignored: bits(ignore), blocked: bits(block) });
      expect(wrapped).toEqual({ ignored: bare!.ignored & ~bits([13, 17, 25]), blocked: bare!.blocked });
    })(),
  );

  test(
    "that the caller ignores, all of them, leave the run as it is; of SIGPWR alone the runtime says one line",
    inEnvironment(async (environment) => {
      const argv = [ASH, "/bin/sh", "-c", "echo hi; exit 3"];
      const most = await execAs(environment, { argv, ignore: ALL.filter((number) => number !== 30) });
      expect(most).toMatchObject({ code: 3, stderr: "" });
      const all = await execAs(environment, { argv, ignore: ALL });
      expect(all.code).toBe(3);
      expect(all.stderr).toMatch(/^(Overriding existing handler for signal 30[^\n]*\n)?$/);
    }),
  );

  test(
    "that nohup ignores leave the child alone",
    inEnvironment(async (environment) => {
      const outcome = await environment.run("nohup ash sh -c 'kill -HUP $$; echo alive'");
      expect(outcome.code).toBe(0);
      expect(environment.lastRun().stdout.toString()).toBe("alive\n");
    }),
  );

  test(
    "keep the exit code when the caller ignores SIGCHLD",
    inEnvironment(async (environment) => {
      const argv = [ASH, "/bin/sh", "-c", "exit 7"];
      expect(await execAs(environment, { argv, ignore: [17] })).toMatchObject({ code: 7, stderr: "" });
      expect(await execAs(environment, { argv, ignore: [17], block: [17] })).toMatchObject({ code: 7, stderr: "" });
      expect(environment.lastRun().receipt.exit).toEqual({ kind: "code", code: 7, signal: null });
    }),
  );

  test(
    "give a child its SIGPIPE, whatever the runtime ignores: yes | head -1",
    inEnvironment(async (environment) => {
      for (const ignore of [[], [13]]) {
        const script = "set -o pipefail; yes | head -1; echo $?";
        expect((await execAs(environment, { argv: [ASH, "/bin/bash", "-c", script], ignore })).code).toBe(0);
        expect(environment.lastRun().stdout.toString()).toBe("y\n141\n");
      }
    }),
  );
});

describe.skipIf(process.platform !== "linux")("the descriptors", () => {
  // Names and targets of the shell's own, with pipes and sockets by kind alone.
  const LIST = "for f in /proc/$$/fd/*; do echo $(basename $f) $(readlink $f); done";
  const kinds = (list: string) =>
    list
      .replace(/^([012]) .*/gm, "$1")
      .replace(/(pipe|socket):\[\d+\]/g, "$1")
      .replaceAll(/\/proc\/\d+/g, "/proc/PID");

  test.each(["", "exec 7>f7", "exec 3<f3", "exec 3<f3 4>f4 5<>f5 9<f3", "exec 200>f200 10<f3"])(
    "are exactly the caller's, and none of ours: %p",
    (open) =>
      inEnvironment(async (environment) => {
        environment.write("f3", "");
        environment.write("list", LIST);
        const bare = await environment.run(`${open}\nsh list; ash sh list >/dev/null; :`);
        expect(bare.stderr).toBe("");
        const listed = environment.lastRun().stdout.toString();
        expect(kinds(listed)).toBe(kinds(bare.stdout));
        expect(listed).not.toContain(".agent-shell");
      })(),
  );

  test(
    "from 3 up can be written and read by the child: exec 7>f7; ash sh -c 'echo x >&7'",
    inEnvironment(async (environment) => {
      environment.write("in", "line\n");
      const outcome = await environment.run("exec 7>f7 8<in; ash sh -c 'echo x >&7; cat <&8' >/dev/null; cat f7");
      expect(outcome).toMatchObject({ stdout: "x\n", stderr: "" });
      expect(environment.lastRun().stdout.toString()).toBe("line\n");
    }),
  );

  test(
    "of a process substitution reach the child: ash cat <(echo x)",
    inEnvironment(async (environment) => {
      expect(await environment.run("ash cat <(echo x) <(echo y)")).toMatchObject({ code: 0, stderr: "" });
      expect(environment.lastRun().stdout.toString()).toBe("x\ny\n");
      await environment.run("echo z | ash tee >(cat >copy); until [ -s copy ]; do :; done");
      expect(readFileSync(join(environment.project, "copy"), "utf8")).toBe("z\n");
    }),
  );

  const SUBSETS = Array.from({ length: 8 }, (_, set) => [0, 1, 2].filter((fd) => (set >> fd) & 1));
  test.each(SUBSETS.map((close) => [close]))("0, 1 and 2 that the caller closed are closed in the child: %j", (close) =>
    inEnvironment(async (environment) => {
      const look = 'a=; for n in 0 1 2; do [ -e /proc/$$/fd/$n ] && a="$a $n"; done; echo "$a" >seen; exit 5';
      const outcome = await execAs(environment, { argv: [ASH, "/bin/sh", "-c", look], close });
      expect(outcome).toMatchObject({ code: 5, stderr: "" });
      const open = [0, 1, 2].filter((fd) => !close.includes(fd));
      expect(readFileSync(join(environment.project, "seen"), "utf8").trim()).toBe(open.join(" "));
      const { receipt } = environment.lastRun();
      expect([receipt.stdin.kind, receipt.streams.stdout!.ended, receipt.streams.stderr!.ended]).toEqual([
        close.includes(0) ? "closed" : "null",
        close.includes(1) ? "closed" : "eof",
        close.includes(2) ? "closed" : "eof",
      ]);
      // The shell's own redirections find the free numbers as they would without ash.
      const writes = "echo out; echo err >&2; exit 6";
      expect((await execAs(environment, { argv: [ASH, "/bin/sh", "-c", writes], close })).code).toBe(6);
      expect(environment.lastRun().stdout.toString()).toBe(close.includes(1) ? "" : "out\n");
      const complaint = close.includes(2) ? "" : close.includes(1) ? expect.stringContaining("err\n") : "err\n";
      expect(environment.lastRun().stderr.toString()).toEqual(complaint as string);
    })(),
  );

  test(
    "keep the offset of a file that is stdin, and what the child left is the next reader's",
    inEnvironment(async (environment) => {
      environment.write("lines", "one\ntwo\nthree\n");
      const outcome = await environment.run("{ read a; ash head -n 1 >/dev/null; read b; echo $a $b; } <lines");
      expect(outcome).toMatchObject({ stdout: "one three\n", stderr: "" });
      const run = environment.lastRun();
      expect(run.stdout.toString()).toBe("two\n");
      expect(run.receipt.stdin).toMatchObject({ kind: "file", path: join(environment.project, "lines") });
    }),
  );

  test(
    "say what stdin was, and stdin is the caller's own: a file at its offset, a pipe, /dev/null, a socket",
    inEnvironment(async (environment) => {
      environment.write("lines", "one\ntwo\n");
      await environment.run("{ read a; ash true; } <lines");
      expect(environment.lastRun().receipt.stdin).toEqual({
        kind: "file",
        path: join(environment.project, "lines"),
        offset: 4,
      });
      await environment.run("echo x | ash sh -c 'test -p /dev/stdin && echo pipe; cat /dev/stdin'");
      expect(environment.lastRun().stdout.toString()).toBe("pipe\nx\n");
      expect(environment.lastRun().receipt.stdin).toEqual({ kind: "captured", path: null, offset: null });
      await environment.run("ash sh -c 'test -t 0 || echo notty' </dev/null");
      expect(environment.lastRun().stdout.toString()).toBe("notty\n");
      expect(environment.lastRun().receipt.stdin.kind).toBe("null");
      await environment.python(
        `import socket,subprocess
a, b = socket.socketpair(); b.sendall(b'hello'); b.shutdown(1)
subprocess.run(['ash', 'cat'], stdin=a)`,
      );
      expect(environment.lastRun().stdout.toString()).toBe("hello");
      expect(environment.lastRun().receipt.stdin.kind).toBe("socket");
      await environment.run("ash cat <.git");
      expect(environment.lastRun().receipt.stdin.kind).toBe("other");
    }),
  );

  test(
    "of a pipe that never ends do not keep ash: ash true < <(sleep 100)",
    inEnvironment(async (environment) => {
      const outcome = await environment.run("exec 5< <(exec sleep 100); pid=$!; ash true <&5; echo $?; kill $pid");
      expect(outcome.stdout).toEndWith("\n0\n");
    }),
  );

  test(
    "leave bytes of a pipe to the next reader: producer | while read line; do ash true; done",
    inEnvironment(async (environment) => {
      const outcome = await environment.run("seq 3 | while read line; do ash true >/dev/null; echo $line; done");
      expect(outcome.stdout).toBe("1\n2\n3\n");
      expect(environment.runs().map(({ receipt }) => receipt.stdin.kind)).toEqual(["pipe", "pipe", "pipe"]);
    }),
  );

  test(
    "that are shared never keep a changed O_NONBLOCK, and one that had it works",
    inEnvironment(async (environment) => {
      const outcome = await environment.python(
        `import fcntl,os,subprocess
def flags(fd): return fcntl.fcntl(fd, fcntl.F_GETFL)
ins, outs, errs = os.pipe(), os.pipe(), os.pipe()
for extra in (0, os.O_NONBLOCK):
    ends = (ins[0], outs[1], errs[1])
    for fd in ends: fcntl.fcntl(fd, fcntl.F_SETFL, flags(fd) & ~os.O_NONBLOCK | extra)
    before = [flags(fd) for fd in ends]
    code = subprocess.run(['ash', 'sh', '-c', 'echo out; echo err >&2; exit 3'], stdin=ends[0], stdout=ends[1], stderr=ends[2]).returncode
    print(code, before == [flags(fd) for fd in ends], len(os.read(outs[0], 65536)) > 100)`,
      );
      expect(outcome).toMatchObject({ stdout: "3 True True\n3 True True\n", stderr: "" });
    }),
  );

  test(
    "may be few: with ulimit -n 5 to 64 the command runs, or the answer is 125 and says why",
    inEnvironment(async (environment) => {
      const limits = [5, 7, 8, 10, 12, 16, 24, 64];
      const answers: [limit: number, code: number | null][] = [];
      for (const limit of limits) {
        const { code, stdout, stderr } = await environment.run(
          `ulimit -n ${limit}; ash sh -c 'cat </dev/null; echo hi'; exit $?`,
        );
        answers.push([limit, code]);
        if (code === 0) expect(stdout).toContain("stdout| hi\n");
        else expect([limit, code, stdout + stderr]).toEqual([limit, 125, expect.stringContaining("EMFILE") as string]);
      }
      expect(answers.slice(-2)).toEqual([
        [24, 0],
        [64, 0],
      ]);
      const ran = environment.runs().filter(({ receipt }) => receipt.state === "completed");
      expect(ran.map(({ stdout }) => stdout.toString())).toEqual(
        answers.filter(([, code]) => code === 0).map(() => "hi\n"),
      );
    }),
  );
});

describe.skipIf(process.platform !== "linux")("a script without a #! line", () => {
  test(
    "runs through /bin/sh, by its path and on PATH, with its name and arguments: echo $0 $1",
    inEnvironment(async (environment) => {
      environment.write("bin/ns", 'echo "$0" "$1"; exit 3\n', 0o755);
      const byPath = await environment.run("env ./bin/ns 'a b'; ash ./bin/ns 'a b' >/dev/null");
      expect(byPath).toMatchObject({ code: 3, stderr: "" });
      expect(environment.lastRun().stdout.toString()).toBe(byPath.stdout);
      expect(environment.lastRun().receipt.argv).toEqual(["./bin/ns", "a b"]);
      const onPath = await environment.run("PATH=$PWD/bin:$PATH; env ns A; ash ns A >/dev/null");
      expect(onPath).toMatchObject({ code: 3, stderr: "" });
      expect(environment.lastRun().stdout.toString()).toBe(onPath.stdout);
    }),
  );

  test(
    "may be empty, and a file of garbage ends as it does bare",
    inEnvironment(async (environment) => {
      environment.write("empty", "", 0o755);
      expect(await environment.ash(["./empty"])).toMatchObject({ code: 0, stderr: "" });
      environment.write("garbage", Buffer.from("\x7fELF\x00\x01garbage\n", "latin1"), 0o755);
      const bare = await environment.run("env ./garbage");
      expect((await environment.ash(["./garbage"])).code).toBe(bare.code);
      expect(environment.lastRun().stderr.toString()).toBe(bare.stderr);
    }),
  );
});

test(
  "ash runs ash: both runs are recorded in one store",
  inEnvironment(async (environment) => {
    expect(await environment.ash(["ash", "echo", "hi"])).toMatchObject({ code: 0, stderr: "" });
    const [outer, inner] = environment.runs();
    expect([outer!.receipt.argv, inner!.receipt.argv]).toEqual([
      ["ash", "echo", "hi"],
      ["echo", "hi"],
    ]);
    expect(inner!.stdout.toString()).toBe("hi\n");
    expect(outer!.stdout.toString()).toStartWith("✓ state=completed exit=code:0 ");
    expect(outer!.receipt.root).toBe(inner!.receipt.root);
  }),
);
