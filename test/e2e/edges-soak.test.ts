import { describe, expect, test } from "bun:test";
import { closeSync, existsSync, openSync, readdirSync, readFileSync, readSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Event } from "../../src/evidence/event.ts";
import { coveredBytes, type EdgeEnvironment, inEdges } from "../helpers/edges.ts";
import { assertDocument, type Run } from "../helpers/test-environment.ts";
import { waitUntil } from "../helpers/wait-until.ts";

/** Short runs of every kind: the command line, and what its evidence must say. */
const KINDS: { command: string; exit: number; check: (run: Run) => void }[] = [
  {
    command: "ash true",
    exit: 0,
    check: ({ receipt, stdout }) => expect([receipt.exit.code, stdout.length]).toEqual([0, 0]),
  },
  {
    command: "ash sh -c 'echo out; echo err >&2; exit 77'",
    exit: 77,
    check: ({ stdout, stderr }) => expect([String(stdout), String(stderr)]).toEqual(["out\n", "err\n"]),
  },
  {
    command: "ash head -c 1000000 /dev/zero",
    exit: 0,
    check: ({ stdout }) => expect(stdout).toHaveLength(1_000_000),
  },
  {
    command: "ash sh -c 'head -c 500000 /dev/zero >&2 & seq 20000; wait'",
    exit: 0,
    check: ({ stdout, stderr }) => expect([stdout.length, stderr.length]).toEqual([108_894, 500_000]),
  },
  {
    command: "ashctl run --linger-ms 20 -- bash -c '(exec -a edge-holder sleep 0.3) & echo bg'",
    exit: 0,
    check: ({ receipt, stdout }) =>
      expect([receipt.streams.stdout!.ended, String(stdout)]).toEqual(["held_open", "bg\n"]),
  },
  {
    command: "ash bash -c 'echo dying; kill -SEGV $$'",
    exit: 139,
    check: ({ receipt, stdout }) => expect([receipt.exit.signal, String(stdout)]).toEqual(["SIGSEGV", "dying\n"]),
  },
  {
    command: "seq 3000 | ash sh -c 'cat; exit 3'",
    exit: 3,
    check: ({ stdout }) => expect(stdout).toHaveLength(13_893),
  },
  {
    command: "ash sh -c '(sleep 0.02; echo late) & echo now'",
    exit: 0,
    check: ({ stdout }) => expect(String(stdout)).toBe("now\nlate\n"),
  },
];

const isHolder = (run: Run) => run.receipt.argv.some((word) => String(word).includes("edge-holder"));

/** Every run by its kind: the exit that its evidence tells, and no stream that is called held open but a holder's. */
function checkRuns(environment: EdgeEnvironment, times: number): void {
  const runs = environment.runs();
  expect(runs).toHaveLength(KINDS.length * times);
  for (const { command, exit, check } of KINDS) {
    const wanted = command.replace(/^seq 3000 \| /, "").replace(/^(ash|ashctl run --linger-ms 20 --) /, "");
    const same = runs.filter(({ receipt }) => commandOf(receipt.argv) === wanted);
    expect([command, same.length]).toEqual([command, times]);
    for (const run of same) {
      check(run);
      const { receipt } = run;
      if (receipt.exit.kind === "code") expect([command, receipt.exit.code]).toEqual([command, exit]);
      expect([receipt.state, receipt.storage.complete, receipt.storage.lost_bytes]).toEqual(["completed", true, 0]);
      if (isHolder(run)) continue;
      expect([command, receipt.streams.stdout!.ended, receipt.streams.stderr!.ended]).toEqual([command, "eof", "eof"]);
    }
  }
}

/** As it was typed: a word with a space was quoted. */
const commandOf = (argv: readonly unknown[]) =>
  argv.map((word) => (/[ ;]/.test(String(word)) ? `'${word}'` : String(word))).join(" ");

function zombies(): string[] {
  return readdirSync("/proc").filter((name) => /^\d+$/.test(name) && /\) Z/.test(readStat(name)));
}

function readStat(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/stat`, "latin1");
  } catch {
    // Gone.
    return "";
  }
}

describe.skipIf(process.platform !== "linux")("many short runs", () => {
  test(
    "in a row lose no byte, call no stream held open that is not, and leave no process: 320",
    inEdges(async (environment) => {
      const before = new Set(zombies());
      const lines = KINDS.map(({ command, exit }) => `${command} >/dev/null 2>&1; [ $? = ${exit} ] || echo "${exit}?"`);
      for (let round = 0; round < 8; round += 1) {
        const outcome = await environment.run(`for i in 1 2 3 4 5; do ${lines.join("\n")}\ndone`);
        expect(outcome).toMatchObject({ code: 0, stdout: "" });
      }
      await environment.assertNothingLeft();
      checkRuns(environment, 40);
      await waitUntil(() => zombies().every((pid) => before.has(pid)), "the end of zombies");
    }),
    60_000,
  );

  test(
    "at once do the same: 56",
    inEdges(async (environment) => {
      const lines = KINDS.map(
        ({ command, exit }) => `{ ${command} >/dev/null 2>&1; [ $? = ${exit} ] || echo "${exit}?"; } &`,
      );
      const outcome = await environment.run(`for i in 1 2 3 4 5 6 7; do ${lines.join("\n")}\ndone; wait`);
      expect(outcome).toMatchObject({ code: 0, stdout: "" });
      await environment.assertNothingLeft();
      const runs = environment.runs();
      expect(runs).toHaveLength(56);
      expect(new Set(runs.map(({ receipt }) => receipt.run_id)).size).toBe(56);
      for (const run of runs) {
        const { receipt } = run;
        expect([receipt.state, receipt.storage.complete]).toEqual(["completed", true]);
        // On a busy machine a background child may outlast the linger; what came until then is whole.
        const lingers = commandOf(receipt.argv).includes("sleep 0.02");
        if (!lingers && !isHolder(run)) expect(receipt.streams.stdout!.ended).toBe("eof");
        if (commandOf(receipt.argv).startsWith("head")) expect(run.stdout).toHaveLength(1_000_000);
      }
    }),
    30_000,
  );

  test(
    "of the same group at once leave `latest` at one of them, and previous is null or one of them",
    inEdges(async (environment) => {
      await environment.run("for i in $(seq 30); do ash echo same >/dev/null & done; wait");
      const runs = environment.runs();
      const ids = runs.map(({ receipt }) => receipt.run_id);
      expect(ids).toHaveLength(30);
      for (const { receipt } of runs) {
        if (receipt.previous !== null) expect(ids).toContain(receipt.previous.run_id);
      }
    }),
  );
});

/** The journal of a run whose broker was killed: whole lines, and perhaps a torn last one. */
function readTornJournal(directory: string): Event[] {
  const lines = readFileSync(join(directory, "events.jsonl"), "utf8").split("\n");
  const events = lines.slice(0, -1).map((line) => JSON.parse(line) as Event);
  for (const event of events) assertDocument("event", event);
  return events;
}

/** Whether the file is a beginning of what `line` gives for 0, 1, 2, … */
function isPrefix(path: string, line: (i: number) => string): boolean {
  const fd = openSync(path, "r");
  const buffer = Buffer.alloc(1 << 20);
  let pending = "";
  let next = 0;
  try {
    for (let count = readSync(fd, buffer); count > 0; count = readSync(fd, buffer)) {
      const lines = (pending + buffer.toString("latin1", 0, count)).split("\n");
      pending = lines.pop()!;
      for (const each of lines) if (`${each}\n` !== line(next++)) return false;
    }
  } finally {
    closeSync(fd);
  }
  return line(next).startsWith(pending);
}

describe.skipIf(process.platform !== "linux")("ash killed with SIGKILL at any moment", () => {
  const COUNT = "i=0; while :; do echo $i; echo e$i >&2; i=$((i+1)); done";

  /** Kills ash so long after its start, or after its first output. The run's directory, when it has come to one. */
  async function killAfter(environment: EdgeEnvironment, argv: string[], delayMs: number, from: "start" | "output") {
    const known = new Set(environment.runDirectories());
    const started = environment.start(argv);
    const hasOutput = (directory: string) => !known.has(directory) && sizeOf(join(directory, "stdout.bin")) > 0;
    if (from === "output") await waitUntil(() => environment.runDirectories().some(hasOutput), "the first output");
    await Bun.sleep(delayMs);
    started.signal("SIGKILL");
    expect(await started.ended).toBe("SIGKILL");
    const directory = environment.runDirectories().find((each) => !known.has(each)) ?? null;
    if (directory !== null) environment.unfinished.add(directory);
    return directory;
  }

  const sizeOf = (path: string) => (existsSync(path) ? statSync(path).size : 0);

  function checkKilled(directory: string, lines: Record<"stdout" | "stderr", (i: number) => string>): void {
    expect(existsSync(join(directory, "receipt.json"))).toBe(false);
    if (!existsSync(join(directory, "events.jsonl"))) return;
    const events = readTornJournal(directory);
    for (const stream of ["stdout", "stderr"] as const) {
      const path = join(directory, `${stream}.bin`);
      expect([directory, stream, isPrefix(path, lines[stream])]).toEqual([directory, stream, true]);
      expect(coveredBytes(events, stream)).toBeLessThanOrEqual(statSync(path).size);
    }
  }

  test(
    "leaves an exact prefix of both streams and a journal that never leads: 40 times",
    inEdges(async (environment) => {
      let bytes = 0;
      for (let i = 0; i < 40; i += 1) {
        const from = i % 2 === 0 ? "start" : "output";
        const directory = await killAfter(environment, ["ash", "sh", "-c", COUNT], 5 + Math.random() * 60, from);
        if (directory === null) continue;
        checkKilled(directory, { stdout: (n) => `${n}\n`, stderr: (n) => `e${n}\n` });
        bytes += sizeOf(join(directory, "stdout.bin"));
      }
      expect(bytes).toBeGreaterThan(1000);
      // What wrote to us meets a pipe without a reader.
      await environment.assertNothingLeft();
    }),
    30_000,
  );

  test(
    "does so in a flood too: seq 100000000, 6 times",
    inEdges(async (environment) => {
      for (let i = 0; i < 6; i += 1) {
        const directory = await killAfter(environment, ["ash", "seq", "0", "100000000"], Math.random() * 40, "output");
        if (directory !== null) checkKilled(directory, { stdout: (n) => `${n}\n`, stderr: () => "" });
      }
      await environment.assertNothingLeft();
    }),
    30_000,
  );

  test(
    "leaves the captured stdin as a prefix as well: yes | ash cat",
    inEdges(async (environment) => {
      for (let i = 0; i < 6; i += 1) {
        const known = environment.runDirectories().length;
        const started = environment.startScript("yes | { sleep 0.01; exec ash cat; }");
        const isBroker = (words: string[]) => words[0] === "ash" && words[1] === "cat";
        await waitUntil(() => environment.processes().some(({ words }) => isBroker(words)), "ash");
        await Bun.sleep(20 + Math.random() * 50);
        for (const { pid } of environment.processes().filter(({ words }) => isBroker(words)))
          process.kill(pid, "SIGKILL");
        await started.ended;
        const directory = environment.runDirectories()[known];
        if (directory === undefined) continue;
        environment.unfinished.add(directory);
        const yes = () => "y\n";
        checkKilled(directory, { stdout: yes, stderr: () => "" });
        const stdin = join(directory, "stdin.bin");
        if (!existsSync(stdin)) continue;
        expect(isPrefix(stdin, yes)).toBe(true);
        expect(coveredBytes(readTornJournal(directory), "stdin")).toBeLessThanOrEqual(statSync(stdin).size);
      }
      await environment.assertNothingLeft();
    }),
  );

  test(
    "and the next run of the group is not disturbed: killed, then echo",
    inEdges(async (environment) => {
      const argv = ["ash", "sh", "-c", "echo one; [ -e go ] || exec sleep 60"];
      const directory = await killAfter(environment, argv, 0, "output");
      expect(directory).not.toBeNull();
      environment.write("go", "");
      const outcome = await environment.spawn(argv);
      expect(outcome).toMatchObject({ code: 0, stderr: "" });
      expect(outcome.stdout).not.toContain("previous:");
      const listed = await environment.ashctl(["list"]);
      expect(listed).toMatchObject({ code: 0, stderr: "" });
      expect(listed.stdout).toContain(directory!.slice(-8));
      const shown = await environment.ashctl(["show", directory!.slice(-8)]);
      expect(shown.stdout).toContain("one");
      environment.killProcesses();
    }),
  );
});
