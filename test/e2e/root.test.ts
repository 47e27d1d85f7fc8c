/** Where runs are kept: one store for a project, found from anywhere in it, readable by its owner alone. */
import { describe, expect, test } from "bun:test";
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import type { Completion } from "../../src/evidence/completion.ts";
import type { RootDocument } from "../../src/evidence/root.ts";
import {
  ASH,
  inEnvironment,
  isMissing,
  NOBODY,
  parseDocument,
  type TestEnvironment,
} from "../helpers/test-environment.ts";

const hashOf = (text: string) => new Bun.CryptoHasher("sha256").update(text).digest("hex").slice(0, 12);

/** The store that `ash true` uses in `cwd`; `ashctl root` must say the same. */
async function rootIn(environment: TestEnvironment, cwd: string, env: Record<string, string> = {}): Promise<string> {
  const completion = await environment.ashJson(["true"], { cwd, env });
  expect(completion.warnings).toEqual([]);
  const asked = await environment.ashctl(["root", "--json"], { cwd, env });
  const root = dirname(dirname(dirname(dirname(completion.artifacts as string))));
  expect((parseDocument("root", asked.stdout) as RootDocument).root).toBe(root);
  return root;
}

function makeDirectory(...parts: string[]): string {
  const path = join(...parts);
  mkdirSync(path, { recursive: true });
  return path;
}

describe("the root", () => {
  test(
    "is one for all calls in a working copy, however deep and nested",
    inEnvironment(async (environment) => {
      const deep = makeDirectory(environment.project, "a/b/c");
      const store = join(environment.project, ".agent-shell");
      expect(await rootIn(environment, environment.project)).toBe(store);
      expect(await rootIn(environment, deep)).toBe(store);
      await environment.ash(["sh", "-c", "cd a/b && ash sh -c 'cd c && ash true'"]);
      expect(environment.runs().map(({ receipt }) => receipt.root)).toEqual(Array(5).fill(store));
      expect(readdirSync(deep)).toEqual([]);
    }),
  );

  test.skipIf(isMissing("git"))(
    "leaves `git status` clean",
    inEnvironment(async (environment) => {
      await environment.run("git init -q . && ash true");
      expect(await environment.run("git status --porcelain --untracked-files=all")).toMatchObject({
        code: 0,
        stdout: "",
      });
      expect(readFileSync(join(environment.project, ".agent-shell/.gitignore"), "utf8")).toBe("*\n");
      expect(readFileSync(join(environment.project, ".agent-shell/CACHEDIR.TAG"), "utf8")).toStartWith(
        "Signature: 8a477f597d28d172789f06886806bc55\n",
      );
    }),
  );

  test(
    "goes by the strongest rule, then by the nearest directory",
    inEnvironment(async (environment) => {
      const top = makeDirectory(environment.root, "top");
      const deep = makeDirectory(top, "a/b/c/d");
      const store = (...parts: string[]) => join(top, ...parts, ".agent-shell");
      expect(await rootIn(environment, deep)).toBe(join(deep, ".agent-shell"));
      writeFileSync(join(top, "a/README.txt"), "");
      makeDirectory(top, "a/src");
      expect(await rootIn(environment, deep)).toBe(store("a"));
      writeFileSync(join(top, "package.json"), "no JSON");
      expect(await rootIn(environment, deep)).toBe(store());
      writeFileSync(join(top, "a/b/thing.csproj"), "");
      expect(await rootIn(environment, deep)).toBe(store("a/b"));
      // A worktree's .git is a file.
      writeFileSync(join(top, "a/.git"), "gitdir: elsewhere\n");
      expect(await rootIn(environment, deep)).toBe(store("a"));
      makeDirectory(top, "a/b/c/.hg");
      expect(await rootIn(environment, deep)).toBe(store("a/b/c"));
      writeFileSync(join(top, ".agent-shell-root"), "");
      expect(await rootIn(environment, deep)).toBe(store());
    }),
  );

  test(
    "is never the home directory, even with a .git in it, and never /",
    inEnvironment(async (environment) => {
      const { home } = environment;
      makeDirectory(home, ".git");
      const state = join(home, ".local/state/agent-shell");
      expect(await rootIn(environment, home)).toBe(join(state, hashOf(home)));
      expect(join(await rootIn(environment, home, { HOME: `${home}/` }))).toBe(join(state, hashOf(home)));
      expect(await rootIn(environment, "/")).toBe(join(state, hashOf("/")));
      const XDG_STATE_HOME = join(environment.root, "state");
      expect(await rootIn(environment, home, { XDG_STATE_HOME })).toBe(
        join(XDG_STATE_HOME, "agent-shell", hashOf(home)),
      );
      // Not absolute: not used.
      expect(await rootIn(environment, home, { XDG_STATE_HOME: "state" })).toBe(join(state, hashOf(home)));
      const sub = makeDirectory(home, "sub");
      expect(await rootIn(environment, sub)).toBe(join(sub, ".agent-shell"));
      expect([existsSync("/.agent-shell"), existsSync(join(home, ".agent-shell"))]).toEqual([false, false]);
    }),
  );

  test(
    "is never the home directory behind a symlink: HOME=/link, in /real",
    inEnvironment(async (environment) => {
      makeDirectory(environment.home, ".git");
      const link = join(environment.root, "link");
      symlinkSync(environment.home, link);
      const root = await rootIn(environment, environment.home, { HOME: link });
      expect(root).toEndWith(`/.local/state/agent-shell/${hashOf(environment.home)}`);
    }),
  );

  test(
    "is what ASH_ROOT names, absolute or from the working directory, and an empty one counts as none",
    inEnvironment(async (environment) => {
      const store = join(environment.root, "deep/store");
      expect(await rootIn(environment, environment.project, { ASH_ROOT: store })).toBe(store);
      expect(await rootIn(environment, environment.project, { ASH_ROOT: `${store}/` })).toBe(store);
      expect(await rootIn(environment, environment.home, { ASH_ROOT: "store" })).toBe(join(environment.home, "store"));
      expect(await rootIn(environment, environment.project, { ASH_ROOT: "" })).toBe(
        join(environment.project, ".agent-shell"),
      );
      expect(readdirSync(store).sort()).toEqual([".gitignore", "CACHEDIR.TAG", "artifacts"]);
    }),
  );

  test(
    "named by ASH_ROOT need not be UTF-8",
    inEnvironment(async (environment) => {
      const outcome = await environment.python(
        `import os
os.environb[b'ASH_ROOT'] = os.fsencode(os.getcwd()) + b'/d\\xff'
os.execvp('ash', ['ash', 'true'])`,
      );
      expect(outcome).toMatchObject({ code: 0, stderr: "" });
      const name = Buffer.from(`${environment.project}/d\xff/artifacts`, "latin1");
      expect(lstatSync(name).isDirectory()).toBe(true);
    }),
  );

  test(
    "is made once by brokers that start at the same time: 12 in an empty project",
    inEnvironment(async (environment) => {
      const completions = await Promise.all(
        Array.from({ length: 12 }, (_, i) => environment.ashJson(["echo", `${i % 3}`])),
      );
      expect(completions.flatMap(({ warnings }) => warnings)).toEqual([]);
      const store = join(environment.project, ".agent-shell");
      expect(environment.runs().map(({ receipt }) => receipt.root)).toEqual(Array(12).fill(store));
      expect(new Set(completions.map(({ suffix }) => suffix)).size).toBe(12);
    }),
  );
});

describe("a place that cannot be written", () => {
  test(
    "is passed over for the state directory, then for the temporary one, with a warning that names it",
    inEnvironment(async (environment) => {
      environment.giveToNobody();
      chmodSync(environment.project, 0o555);
      const store = join(environment.project, ".agent-shell");
      const json = { env: { ASH_FMT: "json" } };
      const first = await environment.asNobody([ASH, "echo", "hi"], json);
      expect(first.code).toBe(0);
      const state = join(environment.home, ".local/state/agent-shell", hashOf(environment.project));
      expect(environment.lastRun().receipt.root).toBe(state);
      const { warnings } = environment.lastRun().receipt;
      expect(warnings).toHaveLength(1);
      expect(warnings[0]).toContain(`${store} (EACCES)`);
      expect(JSON.parse(first.stdout).warnings).toEqual(warnings);
      const human = await environment.asNobody([ASH, "echo", "hi"]);
      expect(human.stdout).toContain(`\n  warning: ${warnings[0]}\n`);

      rmSync(join(environment.home, ".local"), { recursive: true });
      chmodSync(environment.home, 0o555);
      await environment.asNobody([ASH, "echo", "hi"]);
      const shared = join(
        environment.temporary,
        `agent-shell-${process.getuid?.() === 0 ? NOBODY : process.getuid?.()}`,
      );
      const last = environment.lastRun().receipt;
      expect(last.root).toBe(join(shared, hashOf(environment.project)));
      expect(last.warnings.join("\n")).toContain(`${join(environment.home, ".local/state/agent-shell")}`);
      expect(lstatSync(shared).mode & 0o777).toBe(0o700);

      // Nowhere: the child runs, its output is in the answer, and the answer says that nothing is stored.
      chmodSync(shared, 0o755);
      const count = environment.runDirectories().length;
      const nowhere = await environment.asNobody([ASH, "sh", "-c", "echo ran; exit 3"], json);
      expect(nowhere).toMatchObject({ code: 3, stderr: "" });
      const completion = parseDocument("completion", nowhere.stdout) as Completion;
      expect(completion).toMatchObject({ artifacts: null, storage: { complete: false, stored: false } });
      for (const place of [store, state, shared]) expect(completion.warnings.join("\n")).toContain(place);
      expect((await environment.asNobody([ASH, "echo", "ran"])).stdout).toContain("stdout| ran");
      chmodSync(shared, 0o700);
      expect(environment.runDirectories()).toHaveLength(count);
    }),
  );

  test(
    "named by ASH_ROOT is passed over as well, with a warning",
    inEnvironment(async (environment) => {
      environment.write("file", "");
      const ASH_ROOT = join(environment.project, "file");
      expect((await environment.ash(["true"], { env: { ASH_ROOT } })).code).toBe(0);
      const { root, warnings } = environment.lastRun().receipt;
      expect(root).toBe(join(environment.home, ".local/state/agent-shell", hashOf(ASH_ROOT)));
      expect(warnings.join("\n")).toContain(ASH_ROOT);
    }),
  );

  test(
    "because nothing can be made below an existing directory is named with the system's reason: XDG_STATE_HOME=/proc/x",
    inEnvironment(async (environment) => {
      environment.write("file", "");
      const env = { ASH_ROOT: join(environment.project, "file"), XDG_STATE_HOME: "/proc/x" };
      expect((await environment.ash(["true"], { env })).code).toBe(0);
      const { root, warnings } = environment.lastRun().receipt;
      expect(root).toStartWith(environment.temporary);
      expect(warnings.join("\n")).toMatch(/\/proc\/x\/agent-shell\/[0-9a-f]{12}.*ENOENT/);
    }),
  );

  test(
    "because .agent-shell is a file is passed over, and the file is left as it is",
    inEnvironment(async (environment) => {
      const file = environment.write(".agent-shell", "mine\n");
      expect((await environment.ash(["true"])).code).toBe(0);
      expect(environment.lastRun().receipt.warnings.join("\n")).toContain(file);
      expect(readFileSync(file, "utf8")).toBe("mine\n");
    }),
  );

  test.skipIf(process.getuid?.() !== 0)(
    "in the shared temporary directory because another user made it first is not used",
    inEnvironment(async (environment) => {
      environment.giveToNobody();
      chmodSync(environment.project, 0o555);
      chmodSync(environment.home, 0o555);
      const shared = makeDirectory(environment.temporary, `agent-shell-${NOBODY}`);
      chownSync(shared, 0, 0);
      chmodSync(shared, 0o777);
      const outcome = await environment.asNobody([ASH, "true"]);
      expect(outcome).toMatchObject({ code: 0, stderr: "" });
      expect(readdirSync(shared)).toEqual([]);
    }),
  );
});

describe("links", () => {
  test(
    "may lead to the root itself",
    inEnvironment(async (environment) => {
      const real = makeDirectory(environment.root, "real");
      chmodSync(real, 0o700);
      symlinkSync(real, join(environment.project, ".agent-shell"));
      expect((await environment.ashJson(["echo", "hi"])).warnings).toEqual([]);
      expect(readdirSync(real).sort()).toEqual([".gitignore", "CACHEDIR.TAG", "artifacts"]);
      expect((await environment.ashctl(["show", "latest"])).stdout).toContain("hi");
    }),
  );

  test.each(["artifacts", "artifacts/echo", `artifacts/echo/${hashOf("echo\0hi\0")}`])(
    "below the root are never followed: %s",
    (name) =>
      inEnvironment(async (environment) => {
        const victim = makeDirectory(environment.root, "victim");
        await environment.ash(["echo", "hi"]);
        const path = join(environment.project, ".agent-shell", name);
        rmSync(path, { recursive: true });
        symlinkSync(victim, path);
        expect((await environment.ash(["echo", "hi"])).code).toBe(0);
        expect(readdirSync(victim)).toEqual([]);
        const { root, warnings } = environment.lastRun().receipt;
        expect(root).toStartWith(environment.home);
        expect(warnings.join("\n")).toContain(join(environment.project, ".agent-shell"));
      })(),
  );

  test(
    "named `latest` that lead elsewhere name no previous run, and are replaced by the next run's",
    inEnvironment(async (environment) => {
      await environment.ash(["echo", "hi"]);
      const { directory } = environment.lastRun();
      const group = dirname(directory);
      const elsewhere = join(environment.root, directory.slice(directory.lastIndexOf("/") + 1));
      for (const target of ["../../../..", "no_such_run", elsewhere]) {
        rmSync(join(group, "latest"));
        symlinkSync(target, join(group, "latest"));
        expect((await environment.ashJson(["echo", "hi"])).previous).toBeNull();
      }
      // A run's directory that was replaced by a link is no run.
      const run = environment.lastRun().directory;
      renameSync(run, elsewhere);
      symlinkSync(elsewhere, run);
      expect((await environment.ashJson(["echo", "hi"])).previous).toBeNull();
      rmSync(elsewhere, { recursive: true });
    }),
  );
});

describe("names in the store", () => {
  test(
    "are the program's basename with everything odd replaced, and 12 digits of a hash of the arguments",
    inEnvironment(async (environment) => {
      const long = "x".repeat(100);
      const programs: [file: string, name: string][] = [
        [".hidden", "_hidden"],
        ["a b;c", "a_b_c"],
        ["é", "__"],
        [long, "x".repeat(64)],
        ["..x", "_.x"],
        ["A-1_b.sh", "A-1_b.sh"],
      ];
      for (const [file, name] of programs) {
        environment.write(`bin/${file}`, "#!/bin/sh\n", 0o755);
        expect((await environment.ash([`bin/${file}`, "a b", ""])).code).toBe(0);
        expect(environment.lastRun().receipt.group).toBe(`${name}/${hashOf(`${file}\0a b\0\0`)}`);
      }
      await environment.ash([""]);
      expect(environment.lastRun().receipt.group).toBe(`_/${hashOf("\0")}`);
      await environment.ash(["/"]);
      expect(environment.lastRun().receipt.group.split("/")[0]).toBe("_");
      await environment.ash([".."]);
      expect(environment.lastRun().receipt.group.split("/")[0]).toBe("_.");
    }),
  );

  test(
    "sort by time as text",
    inEnvironment(async (environment) => {
      await environment.run("for i in 1 2 3 4 5; do ash echo $i >/dev/null; done");
      expect(environment.runs().map(({ receipt }) => receipt.argv[1])).toEqual(["1", "2", "3", "4", "5"]);
    }),
  );
});

describe("what others can read", () => {
  test.each(["022", "000", "077"])("is nothing, whatever the umask is: umask %s", (umask) =>
    inEnvironment(async (environment) => {
      expect((await environment.run(`umask ${umask}; ash sh -c 'echo out; umask'`)).code).toBe(0);
      expect(environment.lastRun().stdout.toString()).toBe(`out\n0${umask}\n`);
      const open = await environment.run("find .agent-shell ! -type l -perm /077");
      expect(open).toMatchObject({ stdout: "", code: 0 });
    })(),
  );

  test(
    "has no value of the environment in it, nor its hash: S3=hunter2",
    inEnvironment(async (environment) => {
      const secret = "hunter2-and-more";
      const hash = new Bun.CryptoHasher("sha256").update(secret).digest("hex");
      await environment.ash(["sh", "-c", "echo $S3 | wc -c"], { env: { S3: secret } });
      expect(environment.lastRun().stdout.toString().trim()).toBe(`${secret.length + 1}`);
      await environment.ashctl(["run", "--env", `S3=${secret}`, "--", "sh", "-c", "echo $S3 | wc -c"]);
      expect(environment.lastRun().stdout.toString().trim()).toBe(`${secret.length + 1}`);
      for (const text of [secret, hash, hash.slice(0, 12), Buffer.from(secret).toString("base64")]) {
        expect(await environment.run('grep -r -e "$1" .agent-shell', {}, text)).toMatchObject({ code: 1, stdout: "" });
      }
    }),
  );
});
