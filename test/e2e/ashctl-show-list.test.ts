/** `ashctl show`, `list` and `root`: questions to stored runs. They answer within bounds, and write nothing. */
import { describe, expect, test } from "bun:test";
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import type { QueryResult } from "../../src/evidence/query-result.ts";
import type { RunList } from "../../src/evidence/run-list.ts";
import {
  ASH,
  ASHCTL,
  inEnvironment,
  parseDocument,
  readJournal,
  SAY,
  type TestEnvironment,
} from "../helpers/test-environment.ts";
import { waitUntil } from "../helpers/wait-until.ts";

async function show(environment: TestEnvironment, ...args: string[]): Promise<QueryResult> {
  const outcome = await environment.ashctl(["show", "--json", ...args]);
  expect([args, outcome.code, outcome.stderr]).toEqual([args, 0, ""]);
  return parseDocument("query-result", outcome.stdout) as QueryResult;
}

async function list(environment: TestEnvironment, ...args: string[]): Promise<RunList> {
  const outcome = await environment.ashctl(["list", "--json", ...args]);
  expect([args, outcome.code, outcome.stderr]).toEqual([args, 0, ""]);
  return parseDocument("run-list", outcome.stdout) as RunList;
}

/** How a command line fails: its exit code, and the error's own code and message. */
async function failure(environment: TestEnvironment, ...args: string[]) {
  const outcome = await environment.ashctl(["--json", ...args]);
  expect([args, outcome.stdout]).toEqual([args, ""]);
  const { code, message } = parseDocument("error", outcome.stderr) as { code: string; message: string };
  return { exit: outcome.code, code, message };
}

const store = (environment: TestEnvironment) => join(environment.project, ".agent-shell");

/** A run whose broker was killed while it ran; gives its directory. */
async function killedRun(environment: TestEnvironment, program: string, bytes: number): Promise<string> {
  const known = environment.runDirectories();
  const broker = Bun.spawn([ASH, "python3", "-c", `${SAY}${program}; time.sleep(30)`], {
    cwd: environment.project,
    env: environment.variables,
    stdout: "ignore",
  });
  const directory = await waitUntil(() => {
    const found = environment.runDirectories().find((path) => !known.includes(path));
    return found !== undefined && existsSync(join(found, "events.jsonl")) ? found : null;
  });
  environment.unfinished.add(directory);
  const covered = () =>
    readJournal(directory).reduce((sum, event) => sum + (event.type === "chunk" ? event.bytes : 0), 0);
  await waitUntil(() => covered() === bytes, "the journal of all output");
  broker.kill("SIGKILL");
  await broker.exited;
  const [first] = readJournal(directory);
  if (first?.type === "run_started" && first.pid !== null) process.kill(first.pid, "SIGKILL");
  return directory;
}

describe("ashctl show", () => {
  test(
    "shows both streams as they came, or one of them",
    inEnvironment(async (environment) => {
      const program = `${SAY}say(1, b'o1\\n'); say(2, b'e1\\n'); say(1, b'o2\\no3')`;
      await environment.ash(["python3", "-c", program]);
      const { receipt } = environment.lastRun();
      const merged = await environment.ashctl(["show", "latest"]);
      expect(merged).toMatchObject({ code: 0, stderr: "" });
      expect(merged.stdout.replaceAll(/\+0\.\d{3}s/g, "+")).toBe(
        "1+ stdout| o1\n2+ stderr| e1\n3+ stdout| o2\n4+ stdout (no newline)| o3\nshown 4 of 4 lines, 11B of merged\n",
      );
      expect((await environment.ashctl(["show", "latest", "merged"])).stdout).toBe(merged.stdout);
      expect((await environment.ashctl(["show", "latest", "stderr"])).stdout).toBe(
        "1: e1\nshown 1 of 1 lines, 3B of stderr\n",
      );
      const stdout = await show(environment, "latest", "stdout");
      expect(stdout).toMatchObject({
        run_id: receipt.run_id,
        source: "stdout",
        totals: { items: 3, bytes: 8 },
        bound: null,
        cursor: null,
        next: null,
        identity: { sha256: receipt.streams.stdout!.sha256, bytes: 8, provisional: false },
      });
      expect(stdout.items).toMatchObject([
        { line: 1, offset: 0, bytes: 2, text: "o1", truncated: false, unterminated: false },
        { line: 2, offset: 3, bytes: 2, text: "o2" },
        { line: 3, offset: 6, bytes: 2, text: "o3", unterminated: true },
      ]);
      expect(
        (await show(environment, "latest")).items.map(({ stream, stream_line }) => `${stream} ${stream_line}`),
      ).toEqual(["stdout 1", "stderr 1", "stdout 2", "stdout 3"]);
    }),
  );

  test(
    "finds a run by its id, its suffix, latest and @N, over all groups",
    inEnvironment(async (environment) => {
      await environment.run("ash echo one; ash printf two; ash echo three");
      const [one, two, three] = environment.runs().map(({ receipt }) => receipt.run_id);
      const names: [name: string, runId: string | undefined][] = [
        ["latest", three],
        ["@1", three],
        ["@2", two],
        ["@3", one],
        [one!, one],
        [two!.slice(-8), two],
      ];
      for (const [name, runId] of names) expect([name, (await show(environment, name)).run_id]).toEqual([name, runId!]);
      expect(await failure(environment, "show", "@4")).toMatchObject({ exit: 3, code: "run_not_found" });
      expect(await failure(environment, "show", "deadbeef")).toMatchObject({ exit: 3, code: "run_not_found" });
      expect(await failure(environment, "show", one!.replace(/.{8}$/, "00000000"))).toMatchObject({
        exit: 3,
        code: "run_not_found",
      });
      for (const name of ["@0", "zzz", "DEADBEEF", "../x", "", "one two"]) {
        expect(await failure(environment, "show", name)).toMatchObject({ exit: 2, code: "usage" });
      }
      expect(await failure(environment, "show")).toMatchObject({ exit: 2, code: "usage" });
      expect(await failure(environment, "show", "latest", "stdot")).toMatchObject({ exit: 2, code: "usage" });
      expect(await failure(environment, "show", "latest", "stdout", "x")).toMatchObject({ exit: 2, code: "usage" });
    }),
  );

  test(
    "of a suffix that two runs have is refused with both ids",
    inEnvironment(async (environment) => {
      await environment.ash(["echo", "hi"]);
      const { directory, receipt } = environment.lastRun();
      const other = receipt.run_id.replace("run_20", "run_19");
      cpSync(directory, join(dirname(directory), other), { recursive: true });
      const ambiguous = await failure(environment, "show", receipt.run_id.slice(-8));
      expect(ambiguous).toMatchObject({ exit: 2, code: "run_ambiguous" });
      const human = await environment.ashctl(["show", receipt.run_id.slice(-8)]);
      expect(human.stderr).toContain(receipt.run_id);
      expect(human.stderr).toContain(other);
      rmSync(join(dirname(directory), other), { recursive: true });
    }),
  );

  test(
    "shows at most 100 lines, and says how many there are and where",
    inEnvironment(async (environment) => {
      await environment.ash(["seq", "100"]);
      expect(await show(environment, "latest")).toMatchObject({ bound: null, totals: { items: 100, bytes: 292 } });
      const sixty = "b''.join(b'%d\\n' % i for i in range(1, 61))";
      await environment.ash(["python3", "-c", `${SAY}say(2, ${sixty}); say(1, ${sixty})`]);
      const { directory } = environment.lastRun();
      const result = await show(environment, "latest");
      expect(result).toMatchObject({ bound: "items", totals: { items: 120 } });
      expect(result.items.map(({ stream, text }) => `${stream} ${text}`)).toEqual([
        ...Array.from({ length: 60 }, (_, i) => `stderr ${i + 1}`),
        ...Array.from({ length: 40 }, (_, i) => `stdout ${i + 1}`),
      ]);
      const human = await environment.ashctl(["show", "latest"]);
      expect(human.stdout.trimEnd().split("\n").slice(-2)).toEqual([
        expect.stringMatching(/^shown 100 of 120 lines, \d+B of merged$/) as string,
        `the whole: ${directory}/stdout.bin ${directory}/stderr.bin`,
      ]);
      expect((await environment.ashctl(["show", "latest", "stdout"])).stdout).toContain("\nshown 60 of 60 lines");
    }),
  );

  test(
    "shows at most 32 KiB, whole lines of it",
    inEnvironment(async (environment) => {
      const line = "x".repeat(999);
      await environment.ash(["sh", "-c", `for i in $(seq 50); do echo ${line}; done`]);
      const result = await show(environment, "latest", "stdout");
      expect(result).toMatchObject({ bound: "bytes", totals: { items: 50, bytes: 50_000 } });
      expect(result.items).toHaveLength(32);
      expect(result.items.every(({ text }) => text === line)).toBe(true);
      expect((await environment.ashctl(["show", "latest", "stdout"])).stdout.length).toBeLessThan(36 * 1024);
    }),
  );

  test(
    "cuts a long line at a character, and says its whole length: 20,000 times '€', and 20 MB of x",
    inEnvironment(async (environment) => {
      await environment.ash(["python3", "-c", "print('€' * 20000)"]);
      const [euro] = (await show(environment, "latest", "stdout")).items;
      expect(euro).toMatchObject({ bytes: 60_000, truncated: true, unterminated: false });
      expect(euro!.text).toMatch(/^€{600,670}$/);
      await environment.ash(["sh", "-c", "echo first; head -c 20000000 /dev/zero | tr '\\0' x; echo; echo END"]);
      const started = performance.now();
      for (const source of ["stdout", "merged"]) {
        const { items, totals } = await show(environment, "latest", source);
        expect(totals.items).toBe(3);
        expect(items[1]).toMatchObject({ line: 2, offset: 6, bytes: 20_000_000, truncated: true });
      }
      expect(performance.now() - started).toBeLessThan(3000);
    }),
  );

  test(
    "shows bytes that are not UTF-8 and control characters as escapes, and drives no terminal",
    inEnvironment(async (environment) => {
      await environment.ash([
        "printf",
        "ok\\n\\377\\376 bad é\\na\\0b\\n\\033[2J\\033]0;t\\007red\\rx\\nshown 9 of 9 lines\\n",
      ]);
      expect((await show(environment, "latest", "stdout")).items.map(({ text }) => text)).toEqual([
        ...["ok", "\\xff\\xfe bad é", "a\\x00b", "xed", "shown 9 of 9 lines"],
      ]);
      const human = await environment.ashctl(["show", "latest"]);
      // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be there
      expect(human.stdout).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/);
      expect(human.stdout.split("\n").filter((line) => line.startsWith("shown "))).toHaveLength(1);
    }),
  );

  test(
    "of a run without output says so",
    inEnvironment(async (environment) => {
      await environment.ash(["true"]);
      expect(await environment.ashctl(["show", "latest"])).toMatchObject({
        code: 0,
        stdout: "shown 0 of 0 lines, 0B of merged\n",
      });
      await environment.ash(["nosuch"]);
      expect(await show(environment, "latest")).toMatchObject({ items: [], totals: { items: 0, bytes: 0 } });
    }),
  );

  test(
    "of a run whose broker was killed shows what there is, and calls it provisional",
    inEnvironment(async (environment) => {
      const directory = await killedRun(environment, "say(1, b'one\\n'); say(2, b'two\\n'); say(1, b'thr')", 11);
      const check = async () => {
        const result = await show(environment, "latest");
        expect(result.items.map(({ stream, text }) => `${stream} ${text}`)).toEqual([
          "stdout one",
          "stderr two",
          "stdout thr",
        ]);
        expect(result.identity).toEqual({ sha256: null, bytes: 11, provisional: true });
        expect(result.totals).toEqual({ items: 3, bytes: 11 });
      };
      await check();
      // A torn last line of the journal is passed over.
      writeFileSync(
        join(directory, "events.jsonl"),
        `${readFileSync(join(directory, "events.jsonl"), "utf8")}{"type":"chu`,
      );
      await check();
      expect((await environment.ashctl(["show", "latest"])).stdout).toContain("(the run has no receipt yet)");
      expect((await list(environment)).items).toMatchObject([
        { state: "unfinished", exit: null, argv: null, wall_ms: null, bytes: 11 },
      ]);
      expect((await environment.ashctl(["list"])).stdout).toContain("unfinished");
    }),
  );

  test(
    "of evidence that is missing or damaged is an error with 3, and names what is wrong",
    inEnvironment(async (environment) => {
      await environment.ash(["echo", "hello"]);
      const { directory } = environment.lastRun();
      const file = (name: string) => join(directory, name);
      const damage = async (name: string, change: () => void, code: string) => {
        const bytes = readFileSync(file(name));
        chmodSync(file(name), 0o600);
        change();
        const found = await failure(environment, "show", "latest");
        expect([name, found.exit, found.code]).toEqual([name, 3, code]);
        expect(found.message).toContain(directory.slice(directory.lastIndexOf("/") + 1));
        rmSync(file(name), { force: true });
        writeFileSync(file(name), bytes, { mode: 0o400 });
      };
      await damage("stdout.bin", () => truncateSync(file("stdout.bin"), 3), "evidence_corrupt");
      await damage("stdout.bin", () => writeFileSync(file("stdout.bin"), "hello\nmore\n"), "evidence_corrupt");
      await damage("stderr.bin", () => rmSync(file("stderr.bin")), "evidence_missing");
      await damage("receipt.json", () => writeFileSync(file("receipt.json"), "{"), "evidence_corrupt");
      await damage("receipt.json", () => writeFileSync(file("receipt.json"), "null"), "evidence_corrupt");
      await damage(
        "receipt.json",
        () => writeFileSync(file("receipt.json"), '{"schema":"agent-shell/receipt@2"}'),
        "evidence_corrupt",
      );
      expect((await show(environment, "latest")).items).toHaveLength(1);
    }),
  );
});

describe("ashctl list", () => {
  test(
    "has the runs of all groups, newest first, as many as asked for",
    inEnvironment(async (environment) => {
      await environment.run(
        "ash echo 1; ash false; ash sh -c 'kill -KILL $$'; ash nosuch; ashctl run --label a=b -- seq 20",
      );
      const { items, cursor } = await list(environment);
      expect(cursor).toBeNull();
      expect(items.map(({ argv }) => argv?.[0])).toEqual(["seq", "nosuch", "sh", "false", "echo"]);
      expect(items.map(({ run_id }) => run_id)).toEqual(
        environment
          .runs()
          .map(({ receipt }) => receipt.run_id)
          .reverse(),
      );
      expect(items).toMatchObject([
        {
          state: "completed",
          exit: { kind: "code", code: 0 },
          bytes: 51,
          labels: { a: "b" },
          pinned: false,
          closed: false,
        },
        { state: "failed_to_start", exit: { kind: "none" }, bytes: 0 },
        { state: "completed", exit: { kind: "signal", signal: "SIGKILL" } },
        { state: "completed", exit: { kind: "code", code: 1 } },
        { state: "completed", labels: {} },
      ]);
      expect((await list(environment, "--limit", "2")).items.map(({ argv }) => argv?.[0])).toEqual(["seq", "nosuch"]);
      const human = await environment.ashctl(["list", "--limit", "2"]);
      const lines = human.stdout.trimEnd().split("\n");
      expect(lines).toHaveLength(3);
      expect(lines[0]).toMatch(/^[0-9a-f]{8} {2}\d{4}-\d\d-\d\d \d\d:\d\d:\d\d {2}code:0 .* 51B {2}seq 20$/);
      expect(lines[2]).toBe("2 of 5 runs; more with --limit 5");
    }),
  );

  test(
    "of a root without runs, or without a store, is empty and no error, and makes no store",
    inEnvironment(async (environment) => {
      expect((await list(environment)).items).toEqual([]);
      expect(await environment.ashctl(["list"])).toMatchObject({ code: 0, stdout: "no runs in this root\n" });
      expect(existsSync(store(environment))).toBe(false);
      expect(await failure(environment, "show", "latest")).toMatchObject({ exit: 3, code: "run_not_found" });
      for (const limit of ["0", "-1", "x", "", "1.5"]) {
        expect(await failure(environment, "list", "--limit", limit)).toMatchObject({ exit: 2, code: "usage" });
      }
    }),
  );

  test(
    "keeps one line a run whatever the arguments are",
    inEnvironment(async (environment) => {
      await environment.ash(["printf", "", "a\nb", "\u001b[2J", "\u202e", "it's", "x".repeat(300)]);
      await environment.run("ash printf '' $'\\xff'");
      const { stdout } = await environment.ashctl(["list"]);
      expect(stdout.trimEnd().split("\n")).toHaveLength(2);
      // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be there
      expect(stdout).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/);
      expect((await list(environment)).items.map(({ argv }) => argv?.[2])).toEqual([{ base64: "/w==" }, "a\nb"]);
    }),
  );

  test(
    "passes over names that are none of ours, links, and a damaged receipt, which it names",
    inEnvironment(async (environment) => {
      await environment.run("ash echo 1; ash echo 2");
      const [one, two] = environment.runDirectories();
      const group = dirname(one!);
      writeFileSync(join(group, "notes.txt"), "");
      mkdirSync(join(group, "run_of_the_mill"));
      mkdirSync(join(store(environment), "artifacts/other"));
      symlinkSync(two!, join(group, "run_20200101T000000.000000Z-0123abcd"));
      const victim = join(environment.root, "victim");
      mkdirSync(victim);
      symlinkSync(victim, join(store(environment), "artifacts/link"));
      expect((await list(environment)).items).toHaveLength(2);
      expect(await failure(environment, "show", "0123abcd")).toMatchObject({ exit: 3, code: "run_not_found" });
      chmodSync(join(two!, "receipt.json"), 0o600);
      writeFileSync(join(two!, "receipt.json"), "{");
      expect((await list(environment)).items.map(({ argv }) => argv?.[1])).toEqual(["1"]);
      const human = await environment.ashctl(["list"]);
      expect(human.code).toBe(0);
      expect(human.stdout).toContain(`damaged receipt: ${two!.slice(two!.lastIndexOf("/") + 1)}`);
      rmSync(store(environment), { recursive: true });
    }),
  );
});

describe("ashctl root", () => {
  test(
    "prints the root and why, and makes nothing",
    inEnvironment(async (environment) => {
      const outcome = await environment.ashctl(["root"]);
      expect(outcome).toMatchObject({
        code: 0,
        stdout: `${store(environment)}\nreason: nearest directory with .git\n`,
      });
      const asked = async (...args: string[]) =>
        parseDocument("root", (await environment.ashctl(["root", "--json", ...args])).stdout);
      expect(await asked()).toEqual({
        schema: "agent-shell/root@1",
        root: store(environment),
        place: environment.project,
        reason: "vcs",
        marker: ".git",
      });
      expect(await asked("--root", "elsewhere")).toMatchObject({
        root: join(environment.project, "elsewhere"),
        reason: "given",
        marker: null,
      });
      expect(readdirSync(environment.project)).toEqual([".git"]);
    }),
  );
});

describe("the questions", () => {
  test(
    "write nothing in the root, and need no right to",
    inEnvironment(async (environment) => {
      environment.giveToNobody();
      await environment.asNobody([ASH, "seq", "200"]);
      const state = () => environment.run("find .agent-shell -printf '%p %y %m %s %T@ %C@\\n' | sort");
      const before = await state();
      const questions = [["show", "latest"], ["show", "--json", "@1", "stdout"], ["list"], ["root"]];
      for (const args of questions) expect((await environment.ashctl(args)).code).toBe(0);
      expect((await state()).stdout).toBe(before.stdout);
      await environment.run("chmod -R a-w .agent-shell");
      for (const args of questions)
        expect([args, (await environment.asNobody([ASHCTL, ...args])).code]).toEqual([args, 0]);
      await environment.run("find .agent-shell -type d -exec chmod u+w {} +");
    }),
  );

  test(
    "are answered whole to a slow reader, quietly to one that has gone, and with 1 to one that is full",
    inEnvironment(async (environment) => {
      await environment.ash(["sh", "-c", `for i in $(seq 60); do echo ${"x".repeat(500)}; done`]);
      const whole = await environment.ashctl(["show", "latest"]);
      const slow = await environment.python(
        `import fcntl,os,subprocess,sys,time
read, write = os.pipe()
fcntl.fcntl(write, 1031, 4096)
child = subprocess.Popen([sys.argv[1], 'show', 'latest'], stdout=write)
os.close(write)
while data := os.read(read, 1000): sys.stdout.buffer.write(data); time.sleep(.001)
sys.exit(child.wait())`,
        {},
        ASHCTL,
      );
      expect(slow).toMatchObject({ code: 0, stderr: "", stdout: whole.stdout });
      const gone = await environment.run("set -o pipefail; ashctl show latest | head -1; echo $?");
      expect(gone.stderr).toBe("");
      expect(gone.stdout).toEndWith("x\n0\n");
      for (const args of ["show latest", "list", "root", "root --json"]) {
        const full = await environment.run(`ashctl ${args} >/dev/full`);
        expect([args, full.code]).toEqual([args, 1]);
        expect(full.stderr).toMatch(/^(ashctl: [^\n]*ENOSPC[^\n]*|\{"schema":"agent-shell\/error@1".*ENOSPC.*\})\n$/);
      }
    }),
  );
});

test(
  "a line of 100 MB is cut with its length said, within 200 MiB: head -c 100000000 /dev/zero | tr '\\0' x; echo END",
  inEnvironment(async (environment) => {
    await environment.ash(["sh", "-c", "head -c 100000000 /dev/zero | tr '\\0' x; echo END"]);
    // Measured by a small parent: the kernel's figure includes the size of the process that started it.
    const measured = await environment.python(
      `import resource,subprocess,sys
sys.stdout.write(subprocess.run([sys.argv[1], 'show', 'latest', 'stdout', '--json'], stdout=subprocess.PIPE, text=True).stdout)
sys.stderr.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))`,
      {},
      ASHCTL,
    );
    const { items, totals } = parseDocument("query-result", measured.stdout) as QueryResult;
    expect(items).toMatchObject([{ line: 1, offset: 0, bytes: 100_000_003, truncated: true, text: "x".repeat(2000) }]);
    expect(totals).toEqual({ items: 1, bytes: 100_000_004 });
    expect(Number(measured.stderr)).toBeLessThan(200 * 1024);
  }),
);

describe("show behind much output", () => {
  test(
    "has the line behind a long one: head -c 262144 /dev/zero | tr '\\0' x; echo; echo ERROR",
    inEnvironment(async (environment) => {
      await environment.ash(["sh", "-c", "head -c 262144 /dev/zero | tr '\\0' x; echo; echo ERROR"]);
      for (const source of ["stdout", "merged"]) {
        const { items, totals, bound } = await show(environment, "latest", source);
        expect(items.map(({ line, bytes }) => [line, bytes])).toEqual([
          [1, 262_144],
          [2, 5],
        ]);
        expect([items[1]!.text, totals.items, bound]).toEqual(["ERROR", 2, null]);
      }
    }),
  );

  test(
    "keeps order and times, however much stdin was captured: 270,000 bytes, then stderr, then stdout",
    inEnvironment(async (environment) => {
      const script = "cat >/dev/null; echo 1-err >&2; sleep 0.1; echo 2-out";
      await environment.run(`head -c 270000 /dev/zero | ash sh -c '${script}'`);
      const { items } = await show(environment, "latest");
      expect(items.map(({ text }) => text)).toEqual(["1-err", "2-out"]);
      expect(items[1]!.elapsed_ns! - items[0]!.elapsed_ns!).toBeGreaterThan(50e6);
    }),
  );

  test(
    "has what lies behind the last event of a killed run, without a time: a journal cut off",
    inEnvironment(async (environment) => {
      const directory = await killedRun(environment, "say(1, b'a\\n')", 2);
      writeFileSync(join(directory, "stdout.bin"), "a\nb\nc\n");
      const { items } = await show(environment, "latest");
      expect(items.map(({ text, elapsed_ns }) => [text, elapsed_ns !== undefined])).toEqual([
        ["a", true],
        ["b", false],
        ["c", false],
      ]);
    }),
  );
});

test(
  "the command to go on with names a root that would not be found: ashctl run --root q -- seq 20",
  inEnvironment(async (environment) => {
    const outcome = await environment.ashctl(["run", "--root", "q", "--", "seq", "20"]);
    const next = /^ {2}next: (.*)$/m.exec(outcome.stdout)?.[1] ?? "";
    expect((await environment.run(next)).stdout).toContain("20+");
  }),
);

test(
  "an answer for a closed stdout is an error, and ASH_FMT=json makes errors JSON: ashctl list >&-",
  inEnvironment(async (environment) => {
    const outcome = await environment.run("ashctl list >&-", { env: { ASH_FMT: "json" } });
    expect(outcome.code).toBe(1);
    expect(parseDocument("error", outcome.stderr)).toMatchObject({ code: "write_failed" });
  }),
);
