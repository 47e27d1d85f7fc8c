/** `--pty`, `--track`, `--durable` and `--record-env`: what is asked for is there, and only that. */
import { describe, expect, test } from "bun:test";
import { mkdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { inEdges } from "../helpers/edges.ts";
import { assertDocument } from "../helpers/test-environment.ts";
import { waitUntil } from "../helpers/wait-until.ts";

describe("a pseudo-terminal", () => {
  test(
    "is the child's stdin, stdout, stderr and controlling terminal, in a session of its own, and one stream",
    inEdges(async (environment) => {
      const script = "test -t 0 && test -t 1 && test -t 2 && tty </dev/tty; stty size; echo err >&2; exit 4";
      const outcome = await environment.runWith(["--pty"], ["sh", "-c", script]);
      const { receipt, stdout } = environment.lastRun();
      expect(outcome.code).toBe(4);
      expect(stdout.toString()).toBe("/dev/tty\r\n24 80\r\nerr\r\n");
      expect(receipt.streams.stdout).toMatchObject({ terminal: true, ended: "eof", complete: true });
      expect(receipt.streams.stderr).toBeNull();
    }),
  );

  test(
    "stays open for a child that closes all of it and goes on: os.close(0); os.close(1); os.close(2)",
    inEdges(async (environment) => {
      const program = "import os,time\nfor fd in (0, 1, 2): os.close(fd)\ntime.sleep(0.2); os._exit(3)";
      expect((await environment.runWith(["--pty"], ["python3", "-c", program])).code).toBe(3);
      expect(environment.lastRun().receipt.exit).toEqual({ kind: "code", code: 3, signal: null });
    }),
  );

  test(
    "is typed on by our stdin, whose end is Ctrl-D: printf 'a\\n' into cat, and /dev/null",
    inEdges(async (environment) => {
      expect((await environment.run("printf 'a\\n' | ashctl run --pty -- cat >/dev/null")).code).toBe(0);
      expect(environment.lastRun().stdout.toString()).toBe("a\r\na\r\n");
      expect((await environment.runWith(["--pty", "--stdin", "null"], ["cat"])).code).toBe(0);
    }),
  );

  test(
    "has the whole of a large output, in order: seq 200000",
    inEdges(async (environment) => {
      await environment.runWith(["--pty"], ["seq", "200000"]);
      const lines = environment.lastRun().stdout.toString().split("\r\n");
      expect(lines.length).toBe(200_001);
      expect(lines.every((line, index) => index === 200_000 || line === String(index + 1))).toBe(true);
    }),
  );

  test(
    "that a descendant writes to after the run is drained to its end: (sleep 0.5; echo late) & echo x",
    inEdges(async (environment) => {
      const script = "(trap '' HUP; : >ready; sleep 0.5; echo late) & until [ -e ready ]; do sleep 0.01; done; echo x";
      await environment.runWith(["--pty"], ["sh", "-c", script]);
      const { directory, receipt } = environment.lastRun();
      expect(receipt.streams.stdout).toMatchObject({ ended: "held_open", bytes: 3 });
      // Sealed last of all: the drainer has ended by itself.
      const sealed = () => (statSync(join(directory, "late.jsonl"), { throwIfNoEntry: false })?.mode ?? 0) & 0o777;
      await waitUntil(() => sealed() === 0o400, "the end of the drainer");
    }),
  );

  test(
    "passes a signal to ash on to the child, which hears nothing of our own terminal",
    inEdges(async (environment) => {
      const started = environment.start([
        ...["ashctl", "run", "--pty", "--"],
        ...["sh", "-c", "trap 'echo got; exit 5' INT; echo x >ready; while :; do sleep 0.02; done"],
      ]);
      await environment.waitForFile("ready");
      started.signal("SIGINT");
      expect(await started.ended).toBe(130);
      expect(environment.lastRun().receipt).toMatchObject({ state: "cancelled", exit: { kind: "code", code: 5 } });
    }),
  );
});

describe("tracked files", () => {
  test(
    "are told as added, removed and modified, in the answer, the receipt and changes.json",
    inEdges(async (environment) => {
      mkdirSync(join(environment.project, "src"));
      for (const name of ["a", "b", "same"]) environment.write(`src/${name}`, name);
      const script = "echo new >src/c; echo longer >src/a; rm src/b; touch src/same";
      const outcome = await environment.runWith(["--track", "src"], ["sh", "-c", script]);
      expect(outcome.stdout).toContain("changes: observed=yes added=1 removed=1 modified=1 complete=yes\n");
      const { directory, receipt } = environment.lastRun();
      const counts = { added: 1, removed: 1, modified: 1 };
      expect(receipt.changes).toMatchObject({ observed: true, complete: true, ...counts });
      const changes = JSON.parse(readFileSync(join(directory, "changes.json"), "utf8"));
      assertDocument("changes", changes);
      expect(changes.items.map(({ kind, path }: { kind: string; path: string }) => `${kind} ${path}`)).toEqual([
        "modified a",
        "removed b",
        "added c",
      ]);
    }),
  );

  test(
    "that are looked at for long do not count as time of the run: --track /usr",
    inEdges(async (environment) => {
      await environment.runWith(["--track", "/usr"], ["true"]);
      expect(environment.lastRun().receipt.wall_ms).toBeLessThan(500);
    }),
  );
});

test(
  "variables are recorded only by name: --record-env KEPT --record-env MISSING",
  inEdges(async (environment) => {
    const options = ["--record-env", "KEPT", "--record-env", "MISSING"];
    await environment.runWith(options, ["true"], { env: { KEPT: "yes", SECRET: "hunter2" } });
    expect(environment.lastRun().receipt.environment).toEqual({ KEPT: "yes", MISSING: null });
    expect((await environment.run("grep -r hunter2 .agent-shell")).code).toBe(1);
  }),
);

test(
  "a durable run has every file and every directory above it on the disk before the answer",
  inEdges(async (environment) => {
    const trace = environment.path("trace");
    const traced = ["strace", "-f", "-y", "-e", "trace=fsync,write", "-o", trace];
    const outcome = await environment.run(`"$@"`, {}, ...traced, "ashctl", "run", "--durable", "--", "echo", "hi");
    if (outcome.code !== 0) throw new Error(outcome.stderr);
    const lines = readFileSync(trace, "utf8").split("\n");
    const synced = lines.filter((line) => line.includes("fsync(")).map((line) => /<([^>]*)>/.exec(line)?.[1] ?? "");
    const { directory } = environment.lastRun();
    for (const name of ["stdout.bin", "stderr.bin", "events.jsonl", ".receipt.json.tmp"]) {
      expect(synced).toContain(join(directory, name));
    }
    for (const path of [directory, join(directory, ".."), join(directory, "../..")]) expect(synced).toContain(path);
    const answered = lines.findIndex((line) => line.includes("write(1<") && line.includes("state="));
    expect(answered).toBeGreaterThan(lines.findLastIndex((line) => line.includes("fsync(")));
  }),
);

test(
  "a start that fails under --tee is told on stderr: ashctl run --tee -- nosuch",
  inEdges(async (environment) => {
    const outcome = await environment.runWith(["--tee"], ["nosuch"]);
    expect(outcome).toMatchObject({ stdout: "", stderr: "ashctl: 'nosuch' is not on PATH\n", code: 127 });
  }),
);

test(
  "a FIFO in the place of the previous receipt makes nobody wait: mkfifo latest/receipt.json",
  inEdges(async (environment) => {
    await environment.ash(["true"]);
    const { directory } = environment.lastRun();
    rmSync(join(directory, "receipt.json"));
    await environment.run(`mkfifo "$1"`, {}, join(directory, "receipt.json"));
    environment.checksRuns = false;
    expect((await environment.run("timeout 10 ash true && timeout 10 ashctl list")).code).toBe(0);
  }),
);
