/** What `ash` exits with, and which words are its own. */
import { describe, expect, test } from "bun:test";
import { chmodSync, copyFileSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ASH, inEnvironment, parseDocument, type TestEnvironment } from "../helpers/test-environment.ts";

describe("a child that ended", () => {
  test(
    "exits with each of the codes 0 to 255 and is recorded with it",
    inEnvironment(async (environment) => {
      const batch = (from: number, to: number) =>
        environment.run(`for c in $(seq ${from} ${to}); do ash sh -c "exit $c" >/dev/null; echo $c=$?; done`);
      const batches = await Promise.all([batch(0, 85), batch(86, 170), batch(171, 255)]);
      const codes = Array.from({ length: 256 }, (_, code) => code);
      expect(batches.map(({ stdout }) => stdout).join("")).toBe(codes.map((code) => `${code}=${code}\n`).join(""));
      expect(batches.map(({ stderr }) => stderr).join("")).toBe("");
      const recorded = environment.runs().map(({ receipt }) => [receipt.argv[2], receipt.exit, receipt.state]);
      const of = ([command]: unknown[]) => Number(String(command).slice("exit ".length));
      expect(recorded.sort((a, b) => of(a) - of(b))).toEqual(
        codes.map((code) => [`exit ${code}`, { kind: "code", code, signal: null }, "completed"]),
      );
    }),
  );

  const SIGNALS: [name: string, number: number][] = [
    ["SIGHUP", 1],
    ["SIGINT", 2],
    ["SIGQUIT", 3],
    ["SIGABRT", 6],
    ["SIGKILL", 9],
    ["SIGUSR1", 10],
    ["SIGSEGV", 11],
    ["SIGPIPE", 13],
    ["SIGTERM", 15],
    ["SIGXFSZ", 25],
    ["SIGSYS", 31],
    ["SIG34", 34],
    ["SIG64", 64],
  ];
  test.each(SIGNALS)("killed by %s (%i) exits with 128 + the number and is recorded by the name", (name, number) =>
    inEnvironment(async (environment) => {
      const outcome = await environment.run("ulimit -c 0; ash sh -c 'kill -$0 $$' $1", {}, String(number));
      expect(outcome).toMatchObject({ code: 128 + number, signal: null, stderr: "" });
      expect(outcome.stdout).toStartWith(`✗ state=completed exit=signal:${name} `);
      expect(environment.lastRun().receipt).toMatchObject({
        state: "completed",
        exit: { kind: "signal", code: null, signal: name },
      });
    })(),
  );

  test(
    "with code 137 is told apart from one that SIGKILL ended, and both exit with 137",
    inEnvironment(async (environment) => {
      const code = await environment.ash(["sh", "-c", "exit 137"]);
      expect(environment.lastRun().receipt.exit).toEqual({ kind: "code", code: 137, signal: null });
      const signal = await environment.ash(["sh", "-c", "kill -KILL $$"]);
      expect(environment.lastRun().receipt.exit).toEqual({ kind: "signal", code: null, signal: "SIGKILL" });
      expect([code.code, signal.code]).toEqual([137, 137]);
      expect([code.stdout.split(" ")[2], signal.stdout.split(" ")[2]]).toEqual([
        "exit=code:137",
        "exit=signal:SIGKILL",
      ]);
    }),
  );

  test(
    "with a code other than 0 keeps what it wrote: ls /nonexistent",
    inEnvironment(async (environment) => {
      const outcome = await environment.ash(["ls", "/nonexistent"]);
      expect(outcome.code).toBe(2);
      expect(outcome.stdout).toMatch(/stderr\| ls: cannot access '\/nonexistent'/);
      expect(await environment.ash(["false"])).toMatchObject({ code: 1, stderr: "" });
      const { receipt } = environment.lastRun();
      expect(receipt.storage).toMatchObject({ complete: true, reason: null, lost_bytes: 0 });
      expect(receipt.warnings).toEqual([]);
    }),
  );

  test(
    "is looked up on PATH past a file that cannot be executed, as execvp does",
    inEnvironment(async (environment) => {
      environment.write("first/tool", "#!/bin/sh\necho first\n", 0o644);
      environment.write("second/tool", "#!/bin/sh\necho second\n", 0o755);
      const outcome = await environment.run("PATH=$PWD/first:$PWD/second:$PATH ash tool");
      expect(outcome.code).toBe(0);
      expect(environment.lastRun().stdout.toString()).toBe("second\n");
    }),
  );
});

/** Checks the one shape of a run that did not start, and returns its failure's message. */
function assertNotStarted(environment: TestEnvironment, stdout: string, errno: string): string {
  const run = environment.lastRun();
  expect(run.receipt).toMatchObject({
    state: "failed_to_start",
    exit: { kind: "none", code: null, signal: null },
    pid: null,
    cpu: null,
    rss: null,
    failure: { errno },
  });
  expect([run.stdout.length, run.stderr.length]).toEqual([0, 0]);
  expect(run.events.map(({ type }) => type)).toEqual(["run_started", "stream_end", "stream_end", "run_finalized"]);
  const lines = stdout.split("\n");
  expect(lines[0]).toMatch(/^✗ state=failed_to_start exit=none duration=\S+ cpu=unavailable max-rss=unavailable$/);
  const { message } = run.receipt.failure!;
  expect(lines).toContain(`  failure: ${message}`);
  return message;
}

describe("a child that cannot start", () => {
  test.each([
    ["nosuch", "'nosuch' is not on PATH"],
    ["./nosuch", "'./nosuch' does not exist"],
    ["/no/such/place", "'/no/such/place' does not exist"],
    ["", "'' is not on PATH"],
    [".git", "'.git' is not on PATH"],
  ])("and is not found exits with 127: %j", (program, message) =>
    inEnvironment(async (environment) => {
      const outcome = await environment.ash([program, "argument"]);
      expect(outcome).toMatchObject({ code: 127, stderr: "" });
      expect(assertNotStarted(environment, outcome.stdout, "ENOENT")).toBe(message);
    })(),
  );

  test(
    "and lies behind a file as if it were a directory exits with 127",
    inEnvironment(async (environment) => {
      environment.write("file", "");
      const outcome = await environment.ash(["file/x"]);
      expect(outcome.code).toBe(127);
      expect(assertNotStarted(environment, outcome.stdout, "ENOTDIR")).toContain("file/x");
    }),
  );

  test(
    "and is not executable exits with 126, by its path or on PATH",
    inEnvironment(async (environment) => {
      environment.write("noexec", "#!/bin/sh\n", 0o644);
      const byPath = await environment.ash(["./noexec"]);
      expect(byPath.code).toBe(126);
      expect(assertNotStarted(environment, byPath.stdout, "EACCES")).toContain("./noexec");
      const onPath = await environment.run("PATH=$PATH:$PWD ash noexec");
      expect(onPath.code).toBe(126);
      expect(assertNotStarted(environment, onPath.stdout, "EACCES")).toContain("/noexec");
    }),
  );

  test(
    "and is a directory exits with 126, and a directory on PATH is no candidate",
    inEnvironment(async (environment) => {
      const etc = await environment.ash(["/etc"]);
      expect(etc.code).toBe(126);
      expect(assertNotStarted(environment, etc.stdout, "EACCES")).toBe("'/etc' is a directory");
      mkdirSync(join(environment.project, "bin/tool"), { recursive: true });
      expect((await environment.run("PATH=$PATH:$PWD/bin ash tool")).code).toBe(127);
    }),
  );

  test(
    "for want of the interpreter in its first line exits with 126 and names it: #!/no/x",
    inEnvironment(async (environment) => {
      environment.write("script", "#!/no/x -u\n", 0o755);
      const outcome = await environment.ash(["./script"]);
      expect(outcome.code).toBe(126);
      expect(assertNotStarted(environment, outcome.stdout, "ENOENT")).toMatch(/'\/no\/x'.*'\.\/script'/);
    }),
  );

  test(
    "for want of its dynamic loader exits with 126 and names it",
    inEnvironment(async (environment) => {
      const program = readFileSync("/bin/true").toString("latin1").replace("/ld-linux", "/ld-nolib");
      environment.write("program", Buffer.from(program, "latin1"), 0o755);
      const outcome = await environment.ash(["./program"]);
      expect(outcome.code).toBe(126);
      expect(assertNotStarted(environment, outcome.stdout, "ENOENT")).toContain("/ld-nolib");
    }),
  );

  test(
    "for a directory on PATH that may not be read exits with 127, as not found",
    inEnvironment(async (environment) => {
      environment.giveToNobody();
      const locked = join(environment.project, "locked");
      mkdirSync(locked, 0);
      const env = { PATH: `${environment.variables.PATH}:${locked}` };
      const outcome = await environment.asNobody([ASH, "nosuch"], { env });
      chmodSync(locked, 0o755);
      expect(outcome.code).toBe(127);
      assertNotStarted(environment, outcome.stdout, "EACCES");
    }),
  );

  test(
    "is said so in JSON as well",
    inEnvironment(async (environment) => {
      const outcome = await environment.ash(["nosuch"], { env: { ASH_FMT: "json" } });
      expect(outcome.code).toBe(127);
      expect(parseDocument("completion", outcome.stdout)).toMatchObject({
        state: "failed_to_start",
        exit: { kind: "none", code: null, signal: null },
        failure: { errno: "ENOENT", message: "'nosuch' is not on PATH" },
        cpu: null,
        rss: null,
        next: null,
        quickview: null,
      });
      const brief = await environment.ash(["nosuch"], { env: { ASH_FMT: "brief" } });
      expect(brief.stdout).toMatch(/^✗ .* run=[0-9a-f]{8}\n {2}failure: 'nosuch' is not on PATH\n$/);
    }),
  );

  test(
    "because it is being written exits with 126 after a short while, and starts when the writer is done in time",
    inEnvironment(async (environment) => {
      copyFileSync("/bin/true", join(environment.project, "busy"));
      const started = performance.now();
      const busy = await environment.run("exec 9>>./busy; ash ./busy");
      expect(busy.code).toBe(126);
      expect(performance.now() - started).toBeLessThan(2000);
      expect(assertNotStarted(environment, busy.stdout, "ETXTBSY")).toMatch(/'\.\/busy'.*text file busy/);
      const soon = await environment.run(
        "(exec 9>>./busy; : >held; sleep 0.1) & until [ -e held ]; do :; done; ash ./busy",
      );
      expect(soon.code).toBe(0);
    }),
  );
});

describe("a command line", () => {
  test(
    "of `ash` alone prints the help on stderr and exits with 125",
    inEnvironment(async (environment) => {
      const outcome = await environment.ash([]);
      expect(outcome).toMatchObject({ code: 125, stdout: "" });
      expect(outcome.stderr).toStartWith("ash PROGRAM [ARG ...]");
      expect(await environment.ash([], { stdin: "echo hi\n" })).toMatchObject({ code: 125, stdout: "" });
      expect(environment.runDirectories()).toEqual([]);
    }),
  );

  test(
    "of exactly `ash --help` or `ash --version` is answered on stdout",
    inEnvironment(async (environment) => {
      const help = await environment.ash(["--help"]);
      expect(help).toMatchObject({ code: 0, stderr: "" });
      for (const word of ["127", "126", "125", "ashctl run", "ASH_FMT"]) expect(help.stdout).toContain(word);
      const version = await environment.ash(["--version"]);
      expect(version).toMatchObject({ code: 0, stderr: "" });
      expect(version.stdout).toMatch(/^ash \d+\.\d+\.\d+\n$/);
      expect(environment.runDirectories()).toEqual([]);
    }),
  );

  test.each([
    [["-c", "echo hi"]],
    [["--", "true"]],
    [["-x"]],
    [["--help", "true"]],
    [["--version", "--help"]],
    [["-"]],
  ])("that begins with another option is refused in one line that names the shell and ashctl run: %j", (args) =>
    inEnvironment(async (environment) => {
      const outcome = await environment.ash(args);
      expect(outcome).toMatchObject({ code: 125, stdout: "" });
      expect(outcome.stderr).toMatch(
        /^ash: [^\n]*agent-shell, not the Almquist shell[^\n]*\/bin\/sh[^\n]*ashctl run[^\n]*\n$/,
      );
      expect(outcome.stderr).toContain(`'${args[0]}'`);
      expect(environment.runDirectories()).toEqual([]);
    })(),
  );

  test(
    "with an unknown ASH_FMT is refused before anything runs: ASH_FMT=xml",
    inEnvironment(async (environment) => {
      const outcome = await environment.ash(["touch", "ran"], { env: { ASH_FMT: "xml" } });
      expect(outcome).toMatchObject({ code: 125, stdout: "" });
      expect(outcome.stderr).toMatch(/^ash: ASH_FMT is 'xml'[^\n]*\n$/);
      expect(environment.runDirectories()).toEqual([]);
      expect((await environment.run("test -e ran")).code).toBe(1);
    }),
  );

  test(
    "with an empty ASH_FMT is answered as without one",
    inEnvironment(async (environment) => {
      const outcome = await environment.ash(["echo", "hi"], { env: { ASH_FMT: "" } });
      expect(outcome.code).toBe(0);
      expect(outcome.stdout).toStartWith("✓ state=completed exit=code:0 ");
    }),
  );

  test(
    "that is wrong is one error document under ASH_FMT=json",
    inEnvironment(async (environment) => {
      const outcome = await environment.ash(["-c", "x"], { env: { ASH_FMT: "json" } });
      expect(outcome).toMatchObject({ code: 125, stdout: "" });
      expect(parseDocument("error", outcome.stderr)).toMatchObject({ code: "usage" });
    }),
  );

  test.each([
    ["echo", ["--version", "-h", "--", "--json"], "--version -h -- --json\n"],
    ["printf", ["%s", "::then::"], "::then::"],
    ["printf", ["%s|", "--", "--", "-c", "--root", "x"], "--|--|-c|--root|x|"],
  ])("behind the program belongs to the child: ash %s %j", (program, args, stdout) =>
    inEnvironment(async (environment) => {
      expect((await environment.ash([program, ...args])).code).toBe(0);
      expect(environment.lastRun().stdout.toString()).toBe(stdout);
    })(),
  );

  test(
    "behind the program belongs to the child: ash ls --help",
    inEnvironment(async (environment) => {
      const bare = await environment.spawn(["ls", "--help"]);
      expect((await environment.ash(["ls", "--help"])).code).toBe(0);
      expect(environment.lastRun().stdout).toEqual(bare.stdoutBytes);
    }),
  );
});
