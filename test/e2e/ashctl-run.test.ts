/** `ashctl run`: the executor of `ash` with options, read strictly. */
import { describe, expect, test } from "bun:test";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Completion } from "../../src/evidence/completion.ts";
import type { ErrorDocument } from "../../src/evidence/error.ts";
import { ASHCTL, inEnvironment, parseDocument, type TestEnvironment } from "../helpers/test-environment.ts";

/** `ashctl run OPTIONS -- COMMAND`, which must succeed; what the command wrote on stdout. */
async function outputOf(environment: TestEnvironment, options: string[], command: string[]): Promise<string> {
  const outcome = await environment.ashctl(["run", ...options, "--", ...command]);
  expect(outcome).toMatchObject({ code: 0, stderr: "" });
  return environment.lastRun().stdout.toString();
}

/** Runs a command line that must be refused with 125 before anything runs, in text and as JSON. */
async function assertRefused(environment: TestEnvironment, args: string[]): Promise<ErrorDocument> {
  const before = environment.runDirectories().length;
  const human = await environment.ashctl(["run", ...args]);
  expect([args, human.code, human.stdout]).toEqual([args, 125, ""]);
  expect(human.stderr).toMatch(/^ashctl: [^\n]+\n$/);
  const json = await environment.ashctl(["run", "--json", ...args]);
  expect([args, json.code, json.stdout]).toEqual([args, 125, ""]);
  const error = parseDocument("error", json.stderr) as ErrorDocument;
  expect(human.stderr).toBe(`ashctl: ${error.message}${error.hint === null ? "" : ` (${error.hint})`}\n`);
  expect(environment.runDirectories()).toHaveLength(before);
  return error;
}

describe("ashctl run", () => {
  test(
    "does what ash does: output, code, record, answer",
    inEnvironment(async (environment) => {
      const command = ["sh", "-c", "echo out; echo err >&2; exit 3"];
      const ash = await environment.ash(command);
      const run = await environment.ashctl(["run", "--", ...command]);
      expect([run.code, run.stderr]).toEqual([ash.code, ash.stderr]);
      const names = (answer: string) => answer.split("\n").map((line) => line.trim().split(/[ :]/)[0]);
      expect(
        names(run.stdout)
          .filter((name) => name !== "previous")
          .slice(0, 7),
      ).toEqual(names(ash.stdout).slice(0, 7));
      const [a, b] = environment.runs();
      expect([b!.receipt.argv, b!.receipt.group, b!.receipt.exit]).toEqual([
        a!.receipt.argv,
        a!.receipt.group,
        a!.receipt.exit,
      ]);
      expect([b!.stdout, b!.stderr]).toEqual([a!.stdout, a!.stderr]);
      for (const [program, code] of [
        ["nosuch", 127],
        ["/etc", 126],
      ] as const) {
        expect((await environment.ashctl(["run", "--", program])).code).toBe(code);
      }
      expect((await environment.ashctl(["run", "--", "sh", "-c", "kill -KILL $$"])).code).toBe(137);
    }),
  );

  test(
    "answers one JSON document with --json, before the verb and behind it, and with ASH_FMT=json",
    inEnvironment(async (environment) => {
      const command = ["run", "--", "sh", "-c", "echo hi; exit 5"];
      const before = await environment.ashctl(["--json", ...command]);
      const behind = await environment.ashctl(["run", "--json", ...command.slice(1)]);
      const variable = await environment.ashctl(command, { env: { ASH_FMT: "json" } });
      for (const outcome of [before, behind, variable]) {
        expect(outcome).toMatchObject({ code: 5, stderr: "" });
        expect((parseDocument("completion", outcome.stdout) as Completion).quickview!.items[0]!.text).toBe("hi");
      }
      const brief = await environment.ashctl(command, { env: { ASH_FMT: "brief" } });
      expect(brief.stdout.split("\n")[0]).toMatch(/ run=[0-9a-f]{8}$/);
    }),
  );

  test(
    "leaves every word behind `--` to the child",
    inEnvironment(async (environment) => {
      expect(await outputOf(environment, [], ["printf", "%s|", "--help", "--", "--json", "--cwd", ""])).toBe(
        "--help|--|--json|--cwd||",
      );
      const help = await environment.spawn(["ls", "--help"]);
      expect(await outputOf(environment, ["--no-quickview"], ["ls", "--help"])).toBe(help.stdout);
    }),
  );

  test(
    "hands arguments on that are not UTF-8",
    inEnvironment(async (environment) => {
      const outcome = await environment.python(
        "import os,sys; os.execv(sys.argv[1], [b'ashctl', b'run', b'--', b'printf', b'%s', b'\\xff\\xfe'])",
        {},
        ASHCTL,
      );
      expect(outcome.code).toBe(0);
      expect(environment.lastRun().stdout).toEqual(Buffer.from([0xff, 0xfe]));
      expect(environment.lastRun().receipt.argv[2]).toEqual({ base64: "//4=" });
    }),
  );
});

describe("--cwd", () => {
  test(
    "changes the child's directory, and the store stays the caller's",
    inEnvironment(async (environment) => {
      const sub = join(environment.project, "sub");
      mkdirSync(join(sub, ".git"), { recursive: true });
      environment.write("sub/tool", "#!/bin/sh\necho tool in $(pwd -P)\n", 0o755);
      for (const name of ["sub", sub, "sub/"]) {
        expect(await outputOf(environment, ["--cwd", name], ["sh", "-c", "pwd -P; echo $PWD"])).toBe(
          `${sub}\n${sub}\n`,
        );
        expect(environment.lastRun().receipt.root).toBe(join(environment.project, ".agent-shell"));
      }
      expect(environment.runs()[0]!.receipt.cwd).toBe(sub);
      // The program's path is seen from there too, as after `cd`.
      expect(await outputOf(environment, ["--cwd=sub"], ["./tool"])).toBe(`tool in ${sub}\n`);
    }),
  );

  test(
    "that is no directory is refused with 125",
    inEnvironment(async (environment) => {
      environment.write("file", "");
      for (const name of ["nosuch", "file"]) {
        const { message } = await assertRefused(environment, ["--cwd", name, "--", "true"]);
        expect(message).toContain(`'${name}'`);
      }
    }),
  );

  test(
    "that may not be entered ends with 125 and is named",
    inEnvironment(async (environment) => {
      environment.giveToNobody();
      mkdirSync(join(environment.project, "locked"), 0);
      const outcome = await environment.asNobody([ASHCTL, "run", "--cwd", "locked", "--", "true"]);
      expect(outcome.stdout + outcome.stderr).toContain("'locked'");
      expect(outcome.code).toBe(125);
    }),
  );

  test(
    "need not be UTF-8, and neither need a value of --env",
    inEnvironment(async (environment) => {
      const outcome = await environment.python(
        `import os,sys
os.mkdir(b'd\\xff')
os.execv(sys.argv[1], [b'ashctl', b'run', b'--cwd', b'd\\xff', b'--env', b'A=\\xfe', b'--', b'sh', b'-c', b'printf %s "$A"; pwd -P'])`,
        {},
        ASHCTL,
      );
      expect(outcome.code).toBe(0);
      expect(environment.lastRun().stdout.toString("latin1")).toBe(`\xfe${environment.project}/d\xff\n`);
    }),
  );

  test(
    "is recorded as the child sees it: sub/../sub",
    inEnvironment(async (environment) => {
      mkdirSync(join(environment.project, "sub"));
      await outputOf(environment, ["--cwd", "sub/../sub"], ["true"]);
      expect(environment.lastRun().receipt.cwd).toBe(join(environment.project, "sub"));
    }),
  );
});

describe("--env and --unset-env", () => {
  test(
    "set and remove variables over the caller's, and nothing else changes",
    inEnvironment(async (environment) => {
      const bare = await environment.spawn(["env"], { env: { OLD: "1", KEEP: "2" } });
      const outcome = await environment.ashctl(
        [
          "run",
          "--env",
          "A=b=c",
          "--env",
          "EMPTY=",
          "--env",
          "KEEP=3",
          "--unset-env",
          "OLD",
          "--unset-env",
          "NEVER",
          "--",
          "env",
        ],
        { env: { OLD: "1", KEEP: "2" } },
      );
      expect(outcome.code).toBe(0);
      const lines = (text: string) => text.trim().split("\n").sort();
      const expected = lines(bare.stdout).filter((line) => !/^(OLD|KEEP)=/.test(line));
      expect(lines(environment.lastRun().stdout.toString())).toEqual([...expected, "A=b=c", "EMPTY=", "KEEP=3"].sort());
      expect(environment.lastRun().receipt.environment).toBeNull();
    }),
  );

  test(
    "take the last value of a name, values with a leading dash, and do not move the search for the program",
    inEnvironment(async (environment) => {
      expect(
        await outputOf(environment, ["--env", "A=1", "--env", "A=-2", "--env=B=--"], ["sh", "-c", "echo $A $B"]),
      ).toBe("-2 --\n");
      expect(await outputOf(environment, ["--env", "PATH=/nowhere"], ["sh", "-c", "echo $PATH"])).toBe("/nowhere\n");
      expect(await outputOf(environment, ["--unset-env", "PATH"], ["/bin/sh", "-c", "echo ran"])).toBe("ran\n");
    }),
  );

  test.each([
    [["--env", "A"], "'A'"],
    [["--env", "=x"], "'=x'"],
    [["--unset-env", "A=b"], "'A=b'"],
    [["--unset-env", ""], "''"],
    [["--env", "A=1", "--unset-env", "A"], "'A'"],
  ])("that make no sense are refused: %j", (options, subject) =>
    inEnvironment(async (environment) => {
      expect((await assertRefused(environment, [...options, "--", "true"])).message).toContain(subject);
    })(),
  );
});

describe("--label, --no-quickview and --sample-ms", () => {
  test(
    "labels are in the receipt",
    inEnvironment(async (environment) => {
      await outputOf(environment, ["--label", "ticket=4711", "--label", "k=a=b", "--label", "é=ü"], ["true"]);
      expect(environment.lastRun().receipt.labels).toEqual({ ticket: "4711", k: "a=b", é: "ü" });
      expect((await assertRefused(environment, ["--label", "x", "--", "true"])).message).toContain("'x'");
    }),
  );

  test(
    "--no-quickview leaves the output out, and says how to get it",
    inEnvironment(async (environment) => {
      const { stdout } = await environment.ashctl(["run", "--no-quickview", "--", "echo", "hi"]);
      expect(stdout).not.toContain("quickview:");
      expect(stdout).toEndWith(`\n  next: ashctl show ${environment.lastRun().receipt.run_id.slice(-8)} merged\n`);
    }),
  );

  test(
    "--sample-ms fixes the interval, 0 leaves it adaptive, anything else is refused",
    inEnvironment(async (environment) => {
      await outputOf(environment, ["--sample-ms", "10"], ["sleep", "0.3"]);
      const { events, receipt } = environment.lastRun();
      const samples = events.filter(({ type }) => type === "sample").length;
      expect(samples).toBeGreaterThanOrEqual(10);
      expect(samples).toBeLessThanOrEqual(40);
      expect(receipt.limits.sample_ms).toBe(10);
      await outputOf(environment, ["--sample-ms", "0"], ["true"]);
      expect(environment.lastRun().receipt.limits.sample_ms).toBeNull();
      for (const value of ["x", "-5", "1.5", "", "1e3"]) {
        expect((await assertRefused(environment, ["--sample-ms", value, "--", "true"])).message).toContain(
          `'${value}'`,
        );
      }
    }),
  );
});

describe("--spec", () => {
  test(
    "reads a run as JSON, from a file or stdin",
    inEnvironment(async (environment) => {
      mkdirSync(join(environment.project, "sub"));
      const spec = {
        schema: "agent-shell/run-spec@1",
        argv: ["sh", "-c", 'printf "%s|" "$A" "$B" "$OLD" "$1"; pwd -P', "sh", { base64: "/w==" }],
        cwd: "sub",
        env: { A: "a b", B: { base64: "/g==" } },
        unset_env: ["OLD"],
        labels: { k: "v" },
        quickview: false,
        sample_ms: 7,
      };
      environment.write("spec.json", JSON.stringify(spec));
      const env = { OLD: "old", ASH_FMT: "json" };
      const file = await environment.ashctl(["run", "--spec", "spec.json"], { env });
      const stdin = await environment.ashctl(["run", "--spec", "-"], { env, stdin: JSON.stringify(spec) });
      for (const outcome of [file, stdin]) {
        expect(outcome).toMatchObject({ code: 0, stderr: "" });
        expect((parseDocument("completion", outcome.stdout) as Completion).quickview).toBeNull();
      }
      for (const { receipt, stdout } of environment.runs()) {
        expect(stdout.toString("latin1")).toBe(`a b|\xfe||\xff|${environment.project}/sub\n`);
        expect(receipt).toMatchObject({ argv: spec.argv, labels: { k: "v" }, limits: { sample_ms: 7 } });
      }
      // Options on the command line come on top.
      await environment.ashctl(["run", "--spec", "spec.json", "--label", "k=w", "--env", "A=z", "--cwd", "."], { env });
      expect(environment.lastRun().receipt.labels).toEqual({ k: "w" });
      expect(environment.lastRun().stdout.toString("latin1")).toBe(`z|\xfe||\xff|${environment.project}\n`);
    }),
  );

  test.each<[spec: string, part: string]>([
    ["", "not JSON"],
    ['{"argv":["true"]', "not JSON"],
    ['{"argv":["true"],"cwdd":"x"}', "unknown field: cwdd"],
    ['{"argv":["true",{"base64":"AA==","z":1}]}', "unknown field: argv[1].z"],
    ['{"argv":[]}', "argv"],
    ['{"cwd":"x"}', "argv"],
    ['{"argv":["true",5]}', "argv[1]"],
    ['{"argv":["true","a\\u0000b"]}', "argv[1]"],
    ['{"argv":["true"],"env":{"A=B":"c"}}', "env.A=B"],
    ['{"argv":["true"],"sample_ms":-1}', "sample_ms"],
    ['{"argv":["true"],"schema":"agent-shell/run-spec@2"}', "schema"],
    ['["true"]', "the document"],
    ["null", "the document"],
  ])("that is wrong is refused with the field's path: %s", (spec, part) =>
    inEnvironment(async (environment) => {
      environment.write("spec.json", spec);
      const { code, message } = await assertRefused(environment, ["--spec", "spec.json"]);
      expect(code).toBe("bad_spec");
      expect(message).toContain("'spec.json'");
      expect(message).toContain(part);
    })(),
  );

  test(
    "with text that is no base64 is refused with the field's path",
    inEnvironment(async (environment) => {
      environment.write("spec.json", '{"argv":["true",{"base64":"!!"}]}');
      const { code, message } = await assertRefused(environment, ["--spec", "spec.json"]);
      expect([code, message]).toEqual(["bad_spec", expect.stringContaining("argv[1]") as string]);
    }),
  );

  test(
    "with an argument that is too long for the system ends with 126 and E2BIG",
    inEnvironment(async (environment) => {
      environment.write("spec.json", JSON.stringify({ argv: ["true", "x".repeat(131_072)] }));
      const outcome = await environment.ashctl(["run", "--spec", "spec.json"]);
      expect(outcome.code).toBe(126);
      expect(environment.lastRun().receipt).toMatchObject({ state: "failed_to_start", failure: { errno: "E2BIG" } });
      expect(outcome.stdout).toMatch(/^ {2}failure: .*too long.*E2BIG/m);
    }),
  );

  test(
    "that cannot be read, or comes with a command, is refused",
    inEnvironment(async (environment) => {
      expect((await assertRefused(environment, ["--spec", "nosuch.json"])).message).toMatch(/'nosuch\.json'.*ENOENT/);
      expect((await assertRefused(environment, ["--spec", "."])).message).toContain("EISDIR");
      environment.write("spec.json", '{"argv":["true"]}');
      expect((await assertRefused(environment, ["--spec", "spec.json", "--", "false"])).message).toContain("twice");
    }),
  );
});

describe("a command line", () => {
  test.each<[args: string[], message: string, hint: string]>([
    [["--cwdd", "x", "--", "true"], "--cwdd", "--cwd"],
    [["--no-quickviw", "--", "true"], "--no-quickviw", "--no-quickview"],
    [["--lable", "a=b", "--", "true"], "--lable", "--label"],
    [["--unsetenv", "A", "--", "true"], "--unsetenv", "--unset-env"],
    [["--quickly", "--", "true"], "--quickly", "--help"],
    [["-x", "--", "true"], "-x", "--help"],
    [["--cwd"], "--cwd needs a value", "--cwd DIR"],
    [["--cwd", "--env", "A=1", "--", "true"], "--cwd needs a value", "--cwd DIR"],
    [["--no-quickview=1", "--", "true"], "takes no value", "--no-quickview"],
    [["--cwd", "a", "--cwd", "b", "--", "true"], "--cwd is given 2 times", "once"],
    [["true"], "'true'", "ashctl run -- true"],
    [[], "no command", "-- PROGRAM"],
    [["--"], "no command", "-- PROGRAM"],
  ])("that is wrong is refused in one line with the way out: run %j", (args, message, hint) =>
    inEnvironment(async (environment) => {
      const error = await assertRefused(environment, args);
      expect(error.code).toBe("usage");
      expect(error.message).toContain(message);
      expect(error.hint).toContain(hint);
    })(),
  );

  test(
    "--help names every option, before `--`",
    inEnvironment(async (environment) => {
      const { stdout, code } = await environment.ashctl(["run", "--help"]);
      expect(code).toBe(0);
      for (const option of [
        "cwd DIR",
        "env NAME=VALUE",
        "unset-env NAME",
        "label KEY=VALUE",
        "no-quickview",
        "sample-ms N",
        "spec FILE",
        "json",
      ]) {
        expect(stdout).toContain(`--${option}`);
      }
    }),
  );

  test(
    "--version works with a verb as well, before `--`",
    inEnvironment(async (environment) => {
      expect(await environment.ashctl(["run", "--version"])).toMatchObject({ code: 0, stderr: "" });
      expect(await environment.ashctl(["list", "--version"])).toMatchObject({ code: 0, stderr: "" });
    }),
  );

  test(
    "without a verb, with an unknown one, or with --version alone answers as it should",
    inEnvironment(async (environment) => {
      expect(await environment.ashctl([])).toMatchObject({ code: 2, stdout: "" });
      expect((await environment.ashctl(["--version"])).stdout).toMatch(/^ashctl \d+\.\d+\.\d+\n$/);
      expect((await environment.ashctl(["--help"])).stdout).toContain("schema");
      const near = await environment.ashctl(["shwo"]);
      expect(near).toMatchObject({
        code: 2,
        stdout: "",
        stderr: "ashctl: ashctl has no verb 'shwo' (did you mean 'ashctl show'?)\n",
      });
      for (const verb of ["nosuch", "constructor", "__proto__"]) {
        const outcome = await environment.ashctl(["--json", verb]);
        expect(outcome.code).toBe(2);
        expect(parseDocument("error", outcome.stderr)).toMatchObject({ code: "usage" });
      }
    }),
  );

  test(
    "with --root or ASH_ROOT records there, and the option comes first",
    inEnvironment(async (environment) => {
      const store = join(environment.root, "store");
      const other = join(environment.root, "other");
      await environment.ashctl(["--root", store, "run", "--", "true"], { env: { ASH_ROOT: other } });
      expect(environment.lastRun().receipt.root).toBe(store);
      await environment.ashctl(["run", "--root", "../store", "--", "true"]);
      expect(environment.lastRun().directory).toStartWith(environment.root);
      await environment.ashctl(["run", "--", "true"], { env: { ASH_ROOT: other } });
      expect(environment.lastRun().receipt.root).toBe(other);
    }),
  );
});
