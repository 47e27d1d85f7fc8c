import { describe, expect, test } from "bun:test";
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { coveredBytes, type EdgeEnvironment, inEdges, readEvidence } from "../helpers/edges.ts";
import { isMissing, parseDocument } from "../helpers/test-environment.ts";

const MOUNTS = canMount();

function canMount(): boolean {
  if (process.platform !== "linux") return false;
  const place = mkdtempSync(join(tmpdir(), "ash-mount-"));
  const mount = Bun.spawnSync(["mount", "-t", "tmpfs", "-o", "size=64k", "none", place]);
  if (mount.exitCode === 0) Bun.spawnSync(["umount", place]);
  else console.error(`skipped: tests of full disks (${mount.stderr.toString().trim()})`);
  rmdirSync(place);
  return mount.exitCode === 0;
}

function command(...argv: string[]): void {
  const { exitCode, stderr } = Bun.spawnSync(argv);
  if (exitCode !== 0) throw new Error(`${argv.join(" ")}: ${stderr.toString()}`);
}

/** A small file system of its own at `disk` in the environment, with a project in it. */
function onSmallDisk(sizeKb: number, body: (environment: EdgeEnvironment, disk: string) => Promise<void>) {
  return inEdges(async (environment) => {
    const disk = join(environment.root, "disk");
    mkdirSync(disk);
    command("mount", "-t", "tmpfs", "-o", `size=${sizeKb}k`, "none", disk);
    try {
      for (const name of ["project/.git", "home", "tmp"]) mkdirSync(join(disk, name), { recursive: true, mode: 0o700 });
      await body(environment, disk);
    } finally {
      environment.killProcesses();
      // What is on the disk is the test's to check.
      environment.checksRuns = false;
      command("umount", disk);
    }
  });
}

/** Everything that may take a run is on the disk. */
const onDisk = (disk: string) => ({
  cwd: join(disk, "project"),
  env: { HOME: join(disk, "home"), TMPDIR: join(disk, "tmp"), XDG_STATE_HOME: join(disk, "home/state") },
});

/** Takes the last free block. */
function fill(disk: string): void {
  Bun.spawnSync(["sh", "-c", `head -c 100000000 /dev/zero >${disk}/big.log`]);
  expect(Bun.spawnSync(["sh", "-c", `echo x >${disk}/one-more`]).exitCode).not.toBe(0);
  rmSync(join(disk, "one-more"), { force: true });
}

function filesBelow(directory: string): string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory())
    .map((entry) => join(entry.parentPath, entry.name));
}

describe.skipIf(!MOUNTS)("on a full disk", () => {
  test(
    "a command runs, its output is shown, and the answer says that nothing is stored: ash df -h",
    onSmallDisk(512, async (environment, disk) => {
      fill(disk);
      const outcome = await environment.ash(["df", "-h", disk], onDisk(disk));
      expect(outcome).toMatchObject({ code: 0, stderr: "" });
      expect(outcome.stdout).toContain("complete=no reason=ENOSPC");
      expect(outcome.stdout).toContain("stored=none");
      expect(outcome.stdout).toContain(`100% ${disk}`);
      expect(outcome.stdout).not.toContain("artifacts:");
      const completion = await environment.ash(["sh", "-c", "echo out; echo err >&2; exit 3"], {
        ...onDisk(disk),
        env: { ...onDisk(disk).env, ASH_FMT: "json" },
      });
      expect(completion.code).toBe(3);
      const document = parseDocument("completion", completion.stdout) as { storage: object; artifacts: null };
      expect(document.storage).toMatchObject({ complete: false, reason: "ENOSPC", stored: false });
      expect(document.artifacts).toBeNull();
      // Nothing half-made stays behind.
      expect(environment.runDirectories()).toEqual([]);
      expect(filesBelow(disk).filter((path) => !/big\.log$|CACHEDIR\.TAG$|\.gitignore$/.test(path))).toEqual([]);
    }),
  );

  test(
    "its cause can be removed, and the next run is stored: ash rm big.log",
    onSmallDisk(512, async (environment, disk) => {
      fill(disk);
      expect(await environment.ash(["rm", join(disk, "big.log")], onDisk(disk))).toMatchObject({ code: 0, stderr: "" });
      expect(existsSync(join(disk, "big.log"))).toBe(false);
      const next = await environment.ash(["echo", "hi"], onDisk(disk));
      expect(next.code).toBe(0);
      expect(environment.lastRun().stdout.toString()).toBe("hi\n");
      environment.assertAllSound();
    }),
  );

  test(
    "large output is shown at both ends, at most 16 KiB of it: seq 1000000",
    onSmallDisk(512, async (environment, disk) => {
      fill(disk);
      const outcome = await environment.ash(["seq", "1000000"], onDisk(disk));
      expect(outcome).toMatchObject({ code: 0, stderr: "" });
      // The facts of the run come on top.
      expect(outcome.stdout.length).toBeLessThan(16 * 1024 + 2000);
      expect(outcome.stdout).toMatch(/\b1\n/);
      expect(outcome.stdout).toMatch(/\b1000000\n/);
      expect(outcome.stdout).toContain("lost=");
    }),
  );

  test(
    "a run goes to the next place that has room",
    onSmallDisk(512, async (environment, disk) => {
      fill(disk);
      const outcome = await environment.ash(["echo", "hi"], { cwd: join(disk, "project") });
      expect(outcome.code).toBe(0);
      expect(outcome.stdout).toContain("warning:");
      const run = environment.lastRun();
      expect(run.directory).toStartWith(join(environment.home, ".local/state/agent-shell/"));
      expect(run.stdout.toString()).toBe("hi\n");
      expect(run.receipt.storage.complete).toBe(true);
      environment.assertAllSound();
    }),
  );

  test(
    "--require-evidence refuses with 125 in one line, and the child does not run",
    onSmallDisk(512, async (environment, disk) => {
      fill(disk);
      const outcome = await environment.runWith(
        ["--require-evidence"],
        ["touch", environment.path("ran")],
        onDisk(disk),
      );
      expect([outcome.code, outcome.stderr.trim().split("\n").length]).toEqual([125, 1]);
      expect(outcome.stderr).toContain("ENOSPC");
      expect(existsSync(environment.path("ran"))).toBe(false);
      expect((await environment.runWith(["--require-evidence"], ["true"])).code).toBe(0);
    }),
  );

  test(
    "reading works: ashctl list, show",
    onSmallDisk(512, async (environment, disk) => {
      await environment.ash(["echo", "before"], onDisk(disk));
      fill(disk);
      expect((await environment.ashctl(["show", "latest"], onDisk(disk))).stdout).toContain("before");
      expect((await environment.ashctl(["list"], onDisk(disk))).code).toBe(0);
    }),
  );
});

describe.skipIf(!MOUNTS)("a disk that fills up during a run", () => {
  test.each([
    ["", "stdout"],
    [">&2", "stderr"],
  ] as const)("keeps the exact prefix, and the receipt says what was lost: head -c 5000000 %s", (redirection, stream) =>
    onSmallDisk(2048, async (environment, disk) => {
      const source = environment.write(
        "source",
        Buffer.from(Array.from({ length: 5_000_000 }, (_, i) => (i * 7) % 251)),
      );
      const script = `cat ${source} ${redirection}; echo end >${environment.path("end")}; exit 7`;
      const outcome = await environment.ash(["sh", "-c", script], onDisk(disk));
      expect(outcome).toMatchObject({ code: 7, stderr: "" });
      expect(existsSync(environment.path("end"))).toBe(true);
      expect(outcome.stdout).toContain("complete=no reason=ENOSPC");
      expect(outcome.stdout).toMatch(/warning: .*disk/);
      const { receipt, events } = readEvidence(environment.runDirectories()[0]!);
      const stored = environment.lastRun()[stream];
      expect(stored.length).toBeGreaterThan(500_000);
      expect(stored.equals(readFileSync(source).subarray(0, stored.length))).toBe(true);
      const sha256 = new Bun.CryptoHasher("sha256").update(stored).digest("hex");
      expect(receipt.streams[stream]).toMatchObject({ bytes: stored.length, sha256, complete: false, ended: "eof" });
      expect(receipt.storage).toMatchObject({ complete: false, reason: "ENOSPC", stored: true });
      expect(receipt.storage.lost_bytes).toBe(5_000_000 - stored.length);
      expect(receipt.exit).toEqual({ kind: "code", code: 7, signal: null });
      expect(coveredBytes(events, stream)).toBe(stored.length);
      expect(events.filter(({ type }) => type === "storage_error")).toMatchObject([{ stream, reason: "ENOSPC" }]);
      expect(events.at(-1)).toMatchObject({ type: "run_finalized", state: "completed" });
    })(),
  );

  test(
    "by another's doing keeps what was written before: dd beside the run",
    onSmallDisk(4096, async (environment, disk) => {
      const script = `echo before; until grep -qs before .agent-shell/artifacts/*/*/run_*/stdout.bin; do sleep 0.01; done; head -c 100000000 /dev/zero >${disk}/big.log 2>/dev/null; rm -f ${disk}/x; seq 100000; exit 2`;
      const outcome = await environment.ash(["sh", "-c", script], onDisk(disk));
      expect(outcome.code).toBe(2);
      const { receipt, events } = readEvidence(environment.runDirectories()[0]!);
      const { stdout } = environment.lastRun();
      const whole = `before\n${Array.from({ length: 100_000 }, (_, i) => `${i + 1}\n`).join("")}`;
      expect(stdout.length).toBeGreaterThan(6);
      expect(stdout.toString()).toBe(whole.slice(0, stdout.length));
      expect(receipt.storage.lost_bytes).toBe(whole.length - stdout.length);
      expect(coveredBytes(events, "stdout")).toBe(stdout.length);
      expect(receipt.storage).toMatchObject({ complete: false, reason: "ENOSPC" });
    }),
  );

  test(
    "does not touch captured stdin's way to the child: head -c 5000000 | ash wc -c",
    onSmallDisk(2048, async (environment, disk) => {
      const outcome = await environment.run(
        "head -c 5000000 /dev/zero | ashctl run --stdin capture -- wc -c",
        onDisk(disk),
      );
      expect(outcome.code).toBe(0);
      const { receipt } = readEvidence(environment.runDirectories()[0]!);
      expect(environment.lastRun().stdout.toString()).toBeOneOf(["5000000\n", ""]);
      expect(outcome.stdout).toContain("5000000");
      const stored = receipt.streams.stdin!.bytes;
      expect(receipt.streams.stdin).toMatchObject({ complete: false });
      expect(receipt.storage).toMatchObject({ complete: false, reason: "ENOSPC" });
      expect(receipt.storage.lost_bytes).toBeGreaterThanOrEqual(5_000_000 - stored);
    }),
  );

  test(
    "late output is drained all the same, and the writer lives",
    onSmallDisk(1024, async (environment, disk) => {
      const end = environment.path("end");
      const script = `(sleep 0.5; head -c 3000000 /dev/zero; echo fine >${end}) & echo now`;
      expect((await environment.ash(["sh", "-c", script], onDisk(disk))).code).toBe(0);
      expect(await environment.waitForFile("end")).toBe("fine\n");
      await environment.assertNothingLeft();
      const { receipt } = readEvidence(environment.runDirectories()[0]!);
      expect(receipt.streams.stdout).toMatchObject({ ended: "held_open", bytes: 4 });
    }),
  );
});

describe.skipIf(!MOUNTS)("a project that is read-only", () => {
  test(
    "sends runs to XDG_STATE_HOME with a warning, and what is in it can be read",
    inEdges(async (environment) => {
      expect((await environment.ash(["echo", "before"])).code).toBe(0);
      command("mount", "--bind", environment.project, environment.project);
      try {
        command("mount", "-o", "remount,ro,bind", environment.project);
        const state = join(environment.home, "state");
        const outcome = await environment.ash(["sh", "-c", "echo hi; exit 4"], { env: { XDG_STATE_HOME: state } });
        expect(outcome).toMatchObject({ code: 4, stderr: "" });
        expect(outcome.stdout).toContain("warning:");
        expect(outcome.stdout).toContain("EROFS");
        expect(outcome.stdout).toContain(`artifacts: ${state}/agent-shell/`);
        const shown = await environment.ashctl(["--root", environment.path(".agent-shell"), "show", "latest"]);
        expect(shown).toMatchObject({ code: 0, stderr: "" });
        expect(shown.stdout).toContain("before");
        const listed = await environment.ashctl(["--root", environment.path(".agent-shell"), "list"]);
        expect(listed).toMatchObject({ code: 0, stderr: "" });
        // Without any other place: in memory.
        const nowhere = { XDG_STATE_HOME: "/proc/x", HOME: "/proc", TMPDIR: "/proc" };
        const none = await environment.ash(["sh", "-c", "echo hi; exit 4"], { env: nowhere });
        expect(none).toMatchObject({ code: 4, stderr: "" });
        expect(none.stdout).toContain("stored=none");
        expect(none.stdout).toContain("hi");
        const required = await environment.runWith(["--require-evidence"], ["true"], { env: nowhere });
        expect(required.code).toBe(125);
      } finally {
        command("umount", environment.project);
      }
    }),
  );
});

describe("a store without permission to write", () => {
  test(
    "can be read by its owner: ashctl show, list, root",
    inEdges(async (environment) => {
      environment.giveToNobody();
      expect((await environment.asNobody(["ash", "sh", "-c", "echo kept; echo err >&2"])).code).toBe(0);
      const root = environment.path(".agent-shell");
      await environment.run(`chmod -R a-w ${root}`);
      const before = filesBelow(root);
      for (const words of [["show", "latest"], ["show", "@1", "stdout"], ["list"], ["root"]]) {
        const outcome = await environment.asNobody(["ashctl", ...words]);
        expect([words, outcome.code, outcome.stderr]).toEqual([words, 0, ""]);
      }
      expect((await environment.asNobody(["ashctl", "show", "latest"])).stdout).toContain("kept");
      expect(filesBelow(root)).toEqual(before);
      await environment.run(`chmod -R u+w ${root}; find ${root} -path '*run_*' -type f | xargs chmod 400`);
    }),
  );

  test(
    "is passed over for the next place, as an ordinary user: chmod 555 .",
    inEdges(async (environment) => {
      environment.giveToNobody();
      chmodSync(environment.project, 0o555);
      for (const [env, place] of [
        [{}, join(environment.home, ".local/state/agent-shell")],
        [{ HOME: "/nonexistent" }, join(environment.temporary, "agent-shell-65534")],
      ] as const) {
        const uid = process.getuid?.() === 0 ? place : place.replace("65534", String(process.getuid?.()));
        const outcome = await environment.asNobody(["ash", "sh", "-c", "echo hi; exit 3"], { env });
        expect([outcome.code, outcome.stderr]).toEqual([3, ""]);
        expect(outcome.stdout).toContain("warning:");
        expect(environment.lastRun().directory).toStartWith(uid);
        expect(environment.lastRun().stdout.toString()).toBe("hi\n");
      }
      chmodSync(environment.project, 0o755);
    }),
  );
});

describe("a store that the child itself takes away", () => {
  test.each(["rm -rf .agent-shell", "mv .agent-shell elsewhere", "chmod 000 .agent-shell/artifacts/*/*/*"])(
    "costs the evidence and nothing else, and the answer does not point at it: %s",
    (removal) =>
      inEdges(async (environment) => {
        environment.checksRuns = false;
        for (const script of [`${removal}; seq 30000; exit 3`, `${removal}; echo small; exit 3`]) {
          const outcome = await environment.ash(["sh", "-c", script]);
          expect(outcome).toMatchObject({ code: 3, stderr: "" });
          const next = /next: ashctl (.*)/.exec(outcome.stdout)?.[1];
          if (next !== undefined) expect((await environment.ashctl(next.split(" "))).code).toBe(0);
          if (script.includes("small")) expect(outcome.stdout).toContain("stdout| small");
          if (!removal.startsWith("chmod")) expect(outcome.stdout).toContain("warning:");
          await environment.run("chmod -R u+rwx .agent-shell elsewhere 2>/dev/null; rm -rf .agent-shell elsewhere; :");
        }
        const after = await environment.ash(["echo", "hi"]);
        expect(after).toMatchObject({ code: 0, stderr: "" });
        expect(environment.lastRun().stdout.toString()).toBe("hi\n");
      })(),
  );

  test(
    "is no trouble for captured stdin and for holders of the streams",
    inEdges(async (environment) => {
      environment.checksRuns = false;
      const stdin = await environment.run("seq 30000 | ash sh -c 'rm -rf .agent-shell; wc -c >count; exit 3'");
      expect([stdin.code, environment.read("count").trim()]).toEqual([3, "168894"]);
      const script =
        "rm -rf .agent-shell; (until [ -e go ]; do sleep 0.02; done; echo late; echo fine >end) & echo now";
      expect((await environment.ash(["sh", "-c", script])).code).toBe(0);
      environment.write("go", "");
      expect(await environment.waitForFile("end")).toBe("fine\n");
    }),
  );
});

describe("what is stored is for its owner alone, whatever the umask", () => {
  test.each(["000", "022", "077", "0777"])("umask %s", (umask) =>
    inEdges(async (environment) => {
      const root = environment.path(".agent-shell");
      const outcome = await environment.run(`umask ${umask}; echo x | ash sh -c 'cat; exit 3' >/dev/null; echo $?`);
      expect(outcome).toMatchObject({ stdout: "3\n", stderr: "" });
      if (umask === "0777") {
        // Not even its owner may read what this umask makes; nothing half-made counts as a run.
        environment.checksRuns = false;
        return;
      }
      expect((await environment.run(`find ${root} -perm /077 ! -type l`)).stdout).toBe("");
      expect(environment.lastRun().receipt.exit.code).toBe(3);
    })(),
  );

  test(
    "and no value of the environment is in it that was not asked for: S3=hunter2",
    inEdges(async (environment) => {
      const env = { S3: "hunter2", TOKEN: "hunter3" };
      await environment.ash(["sh", "-c", "echo $S3 | wc -c"], { env });
      await environment.runWith(["--env", "EXTRA=hunter4", "--record-env", "TOKEN"], ["true"], { env });
      const root = environment.path(".agent-shell");
      expect((await environment.run(`grep -rE 'hunter[24]' ${root}`)).stdout).toBe("");
      expect((await environment.run(`grep -rl hunter3 ${root}`)).stdout.trim().split("\n")).toHaveLength(1);
      expect(environment.lastRun().receipt.environment).toEqual({ TOKEN: "hunter3" });
    }),
  );
});

describe("a symlink below the root is never followed", () => {
  test.each(["artifacts", "artifacts/echo", "artifacts/echo/GROUP"])(
    "the run goes to the next place, and the target stays as it was: %s",
    (level) =>
      inEdges(async (environment) => {
        const victim = join(environment.root, "victim");
        mkdirSync(victim);
        writeFileSync(join(victim, "file"), "mine");
        expect((await environment.ash(["echo", "hi"])).code).toBe(0);
        const { receipt } = environment.lastRun();
        const link = environment.path(join(".agent-shell", level.replace("echo/GROUP", receipt.group)));
        rmSync(link, { recursive: true });
        symlinkSync(victim, link);
        const outcome = await environment.ash(["echo", "hi"]);
        expect(outcome).toMatchObject({ code: 0, stderr: "" });
        expect(outcome.stdout).toContain("warning:");
        expect(environment.lastRun().directory).toStartWith(environment.home);
        expect(readdirSync(victim)).toEqual(["file"]);
        expect((await environment.ashctl(["list"])).stdout).not.toContain("file");
        expect(lstatSync(link).isSymbolicLink()).toBe(true);
      })(),
  );

  test(
    "where a run's directory or `latest` would be: nothing is read through it",
    inEdges(async (environment) => {
      const victim = join(environment.root, "victim");
      mkdirSync(victim);
      expect((await environment.ash(["echo", "hi"])).code).toBe(0);
      const run = environment.lastRun();
      const group = join(run.directory, "..");
      writeFileSync(join(victim, "stdout.bin"), "secret\n");
      writeFileSync(join(victim, "receipt.json"), JSON.stringify(run.receipt));
      const planted = "run_20990101T000000.000000Z-deadbeef";
      symlinkSync(victim, join(group, planted));
      for (const words of [["show", "deadbeef"], ["show", planted], ["list"], ["show", "latest"]]) {
        const outcome = await environment.ashctl(words);
        expect([words, outcome.stdout.includes("secret")]).toEqual([words, false]);
      }
      expect((await environment.ashctl(["show", "deadbeef"])).code).toBe(3);
      rmSync(join(group, "latest"));
      symlinkSync(victim, join(group, "latest"));
      const next = await environment.ashJson(["echo", "hi"]);
      expect([next.exit.code, next.previous]).toEqual([0, null]);
      expect(readdirSync(victim).sort()).toEqual(["receipt.json", "stdout.bin"]);
      rmSync(join(group, planted));
    }),
  );

  test(
    "but the root itself may be reached through one: .agent-shell, ASH_ROOT, the project",
    inEdges(async (environment) => {
      const real = join(environment.root, "real");
      mkdirSync(real);
      symlinkSync(real, environment.path(".agent-shell"));
      symlinkSync(environment.project, join(environment.root, "link"));
      for (const options of [
        {},
        { cwd: join(environment.root, "link") },
        { env: { ASH_ROOT: environment.path(".agent-shell") } },
      ]) {
        const outcome = await environment.ash(["echo", "hi"], options);
        expect(outcome).toMatchObject({ code: 0, stderr: "" });
        expect(outcome.stdout).not.toContain("warning:");
        expect(environment.lastRun().directory).toStartWith(join(real, "artifacts/echo/"));
        expect((await environment.ashctl(["show", "latest"], options)).stdout).toContain("hi");
      }
      expect(environment.runs()).toHaveLength(3);
    }),
  );
});

describe.skipIf(isMissing("strace") || process.platform !== "linux")("an I/O error", () => {
  test(
    "of any one write of ash leaves the child's code, and evidence that is right or says that it is not: EIO",
    inEdges(async (environment) => {
      environment.checksRuns = false;
      for (let nth = 1; nth <= 6; nth += 1) {
        const inject = ["-e", "trace=write", "-e", `inject=write:error=EIO:when=${nth}`];
        const argv = [
          "strace",
          "-qq",
          "-o",
          "/dev/null",
          ...inject,
          "ash",
          "sh",
          "-c",
          "seq 3; sleep 0.05; seq 3; exit 7",
        ];
        const outcome = await environment.spawn(argv);
        expect([nth, outcome.code]).toEqual([nth, 7]);
        expect(outcome.stderr).not.toContain("at ");
        const directory = environment.runDirectories()[nth - 1]!;
        const stdout = readFileSync(join(directory, "stdout.bin"), "latin1");
        expect("1\n2\n3\n1\n2\n3\n".startsWith(stdout)).toBe(true);
        if (!existsSync(join(directory, "receipt.json"))) {
          expect(outcome.stdout).toContain("warning:");
          continue;
        }
        const { receipt, events } = readEvidence(directory);
        expect(receipt.streams.stdout!.bytes).toBe(stdout.length);
        expect(receipt.storage.lost_bytes).toBe(12 - stdout.length);
        if (receipt.storage.complete) expect(coveredBytes(events, "stdout")).toBe(12);
        else expect(receipt.storage.reason).toBe("EIO");
      }
    }),
    20_000,
  );
});
