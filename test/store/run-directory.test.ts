import { describe, expect, test } from "bun:test";
import {
  chmodSync,
  closeSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { groupOf } from "../../src/store/layout.ts";
import type { RootChoice } from "../../src/store/root.ts";
import {
  createRunDirectory,
  pointLatest,
  publishReceipt,
  type RunDirectory,
  readPreviousReceipt,
  sealFile,
} from "../../src/store/run-directory.ts";
import { isRunId, makeRunId } from "../../src/store/run-id.ts";
import { TempDirectory } from "../helpers/temp-directory.ts";
import { thrownBy } from "../helpers/thrown.ts";

const GROUP = groupOf([Buffer.from("prog"), Buffer.from("arg")]);
const MOMENT = Date.UTC(2026, 7, 28) * 1000;
const SIGNATURE = "Signature: 8a477f597d28d172789f06886806bc55\n";

const runId = (n: number) => makeRunId(MOMENT + n, "test");

function choiceAt(root: string, reason: RootChoice["reason"] = "given"): RootChoice {
  return { root: Buffer.from(root), place: Buffer.from(dirname(root)), reason, marker: null };
}

function close(run: RunDirectory): void {
  for (const fd of [run.stdout, run.stderr, run.events]) closeSync(fd);
}

/** A run that is final, in the order that docs/store.md gives. */
function finalRun(root: string, id: string, receipt = "{}\n"): RunDirectory {
  const run = createRunDirectory(choiceAt(root), GROUP, id);
  for (const fd of [run.stdout, run.stderr, run.events]) sealFile(fd, false);
  publishReceipt(run, receipt, false);
  expect(pointLatest(run)).toBe(true);
  return run;
}

/** Every name below a directory with what it is, but not through links. */
function treeOf(directory: string, prefix = ""): string[] {
  return readdirSync(join(directory, prefix), { withFileTypes: true })
    .flatMap((entry) => {
      const name = join(prefix, entry.name);
      return entry.isDirectory() ? [`${name}/`, ...treeOf(directory, name)] : [name];
    })
    .sort();
}

const modeOf = (path: string) => lstatSync(path).mode & 0o7777;

describe("createRunDirectory", () => {
  test("makes the root, the group and the run with its three files", () => {
    using temp = new TempDirectory();
    const root = temp.at("place", ".agent-shell");
    const run = createRunDirectory(choiceAt(root), GROUP, runId(1));
    close(run);
    const group = `artifacts/prog/${GROUP.invocation}`;
    expect(treeOf(root)).toEqual(
      [
        ...[".gitignore", "CACHEDIR.TAG", "artifacts/", "artifacts/prog/", `${group}/`, `${group}/${runId(1)}/`],
        ...["events.jsonl", "stderr.bin", "stdout.bin"].map((name) => `${group}/${runId(1)}/${name}`),
      ].sort(),
    );
    expect(run).toMatchObject({ root: Buffer.from(root), group: GROUP, runId: runId(1), previousId: null });
    expect(run.path.toString()).toBe(join(root, group, runId(1)));
  });

  test("makes directories that only the user may enter, and files that only the user may read", () => {
    using temp = new TempDirectory();
    const root = temp.at("a", "b", ".agent-shell");
    const run = createRunDirectory(choiceAt(root), GROUP, runId(1));
    close(run);
    for (const name of treeOf(root))
      expect([name, modeOf(join(root, name))]).toEqual([name, name.endsWith("/") ? 0o700 : 0o600]);
    expect(modeOf(root)).toBe(0o700);
  });

  test("leaves the mode of directories that exist", () => {
    using temp = new TempDirectory();
    const root = temp.at(".agent-shell");
    mkdirSync(join(root, "artifacts", "prog"), { recursive: true });
    for (const path of [root, join(root, "artifacts"), join(root, "artifacts", "prog")]) chmodSync(path, 0o755);
    close(createRunDirectory(choiceAt(root), GROUP, runId(1)));
    expect([modeOf(root), modeOf(join(root, "artifacts", "prog"))]).toEqual([0o755, 0o755]);
  });

  test("opens each file for the stream that it is named for", () => {
    using temp = new TempDirectory();
    const run = createRunDirectory(choiceAt(temp.at("r")), GROUP, runId(1));
    for (const name of ["stdout", "stderr", "events"] as const) writeSync(run[name], name);
    close(run);
    const text = (name: string) => readFileSync(join(run.path.toString(), name), "utf8");
    expect([text("stdout.bin"), text("stderr.bin"), text("events.jsonl")]).toEqual(["stdout", "stderr", "events"]);
  });

  test("never takes over a run directory that exists", () => {
    using temp = new TempDirectory();
    const first = createRunDirectory(choiceAt(temp.at("r")), GROUP, runId(1));
    writeSync(first.stdout, "first");
    expect(thrownBy(() => createRunDirectory(choiceAt(temp.at("r")), GROUP, runId(1))).code).toBe("EEXIST");
    close(first);
    expect(treeOf(first.path.toString())).toEqual(["events.jsonl", "stderr.bin", "stdout.bin"]);
    expect(readFileSync(join(first.path.toString(), "stdout.bin"), "utf8")).toBe("first");
  });

  test("names the errno of a root that cannot be", () => {
    using temp = new TempDirectory();
    writeFileSync(temp.at("file"), "");
    expect(thrownBy(() => createRunDirectory(choiceAt(temp.at("file", "r")), GROUP, runId(1))).code).toBe("ENOTDIR");
  });

  test("takes a root whose path is no UTF-8", () => {
    using temp = new TempDirectory();
    const root = Buffer.concat([temp.bytesAt("r"), Buffer.from([0xff])]);
    const run = createRunDirectory({ ...choiceAt(temp.at("r")), root }, GROUP, runId(1));
    close(run);
    expect(statSync(run.path).isDirectory()).toBe(true);
    expect(run.path.subarray(0, root.length)).toEqual(root);
  });

  test("writes .gitignore and CACHEDIR.TAG whole, and keeps those that are there", () => {
    using temp = new TempDirectory();
    const root = temp.at("r");
    close(createRunDirectory(choiceAt(root), GROUP, runId(1)));
    expect(readFileSync(join(root, ".gitignore"), "utf8")).toBe("*\n");
    expect(readFileSync(join(root, "CACHEDIR.TAG"), "utf8").startsWith(SIGNATURE)).toBe(true);
    mkdirSync(temp.at("kept"));
    writeFileSync(temp.at("kept", ".gitignore"), "mine\n");
    close(createRunDirectory(choiceAt(temp.at("kept")), GROUP, runId(1)));
    expect(readFileSync(temp.at("kept", ".gitignore"), "utf8")).toBe("mine\n");
  });
});

describe("a symlink below the root", () => {
  test.each([
    ["artifacts", "artifacts"],
    ["the program", "artifacts/prog"],
    ["the group", `artifacts/prog/${GROUP.invocation}`],
  ])("at the level of %s is refused, and nothing is created at its target", (_, level) => {
    using temp = new TempDirectory();
    const root = temp.at("r");
    mkdirSync(dirname(join(root, level)), { recursive: true });
    mkdirSync(temp.at("target"));
    symlinkSync(temp.at("target"), join(root, level));
    const before = treeOf(root);
    expect(thrownBy(() => createRunDirectory(choiceAt(root), GROUP, runId(1))).code).toBe("ELOOP");
    expect(treeOf(temp.at("target"))).toEqual([]);
    expect(treeOf(root)).toEqual(before);
  });

  test("that dangles is refused, and its target is not made", () => {
    using temp = new TempDirectory();
    mkdirSync(temp.at("r"));
    symlinkSync(temp.at("target"), temp.at("r", "artifacts"));
    expect(thrownBy(() => createRunDirectory(choiceAt(temp.at("r")), GROUP, runId(1))).code).toBe("ELOOP");
    expect(existsSync(temp.at("target"))).toBe(false);
  });

  test("in place of the run directory is refused", () => {
    using temp = new TempDirectory();
    const group = temp.at("r", "artifacts", "prog", GROUP.invocation);
    mkdirSync(group, { recursive: true });
    mkdirSync(temp.at("target"));
    symlinkSync(temp.at("target"), join(group, runId(1)));
    expect(thrownBy(() => createRunDirectory(choiceAt(temp.at("r")), GROUP, runId(1))).code).toBe("EEXIST");
    expect(treeOf(temp.at("target"))).toEqual([]);
  });

  test("in place of .gitignore is not written through", () => {
    using temp = new TempDirectory();
    mkdirSync(temp.at("r"));
    symlinkSync(temp.at("target"), temp.at("r", ".gitignore"));
    close(createRunDirectory(choiceAt(temp.at("r")), GROUP, runId(1)));
    expect(existsSync(temp.at("target"))).toBe(false);
  });

  test("in place of the receipt's temporary file is not written through", () => {
    using temp = new TempDirectory();
    const run = createRunDirectory(choiceAt(temp.at("r")), GROUP, runId(1));
    close(run);
    symlinkSync(temp.at("target"), join(run.path.toString(), ".receipt.json.tmp"));
    expect(thrownBy(() => publishReceipt(run, "{}\n", false)).code).toBe("EEXIST");
    expect(existsSync(temp.at("target"))).toBe(false);
    expect(existsSync(join(run.path.toString(), "receipt.json"))).toBe(false);
  });

  test("is no obstacle above it: the root itself may be one", () => {
    using temp = new TempDirectory();
    mkdirSync(temp.at("target"));
    symlinkSync(temp.at("target"), temp.at("r"));
    close(createRunDirectory(choiceAt(temp.at("r")), GROUP, runId(1)));
    expect(readdirSync(temp.at("target")).sort()).toEqual([".gitignore", "CACHEDIR.TAG", "artifacts"]);
  });
});

test("a file in place of a directory of the store is refused", () => {
  using temp = new TempDirectory();
  mkdirSync(temp.at("r", "artifacts"), { recursive: true });
  writeFileSync(temp.at("r", "artifacts", "prog"), "");
  expect(thrownBy(() => createRunDirectory(choiceAt(temp.at("r")), GROUP, runId(1))).code).toBe("ENOTDIR");
});

describe("a temporary place", () => {
  const create = (temp: TempDirectory) =>
    createRunDirectory(choiceAt(temp.at("shared", "hash"), "temporary"), GROUP, runId(1));

  test("is made, closed to others", () => {
    using temp = new TempDirectory();
    close(create(temp));
    expect(modeOf(temp.at("shared"))).toBe(0o700);
  });

  test.each([0o755, 0o770, 0o777, 0o701])("is refused when others may enter it: mode %d", (mode) => {
    using temp = new TempDirectory();
    mkdirSync(temp.at("shared"));
    chmodSync(temp.at("shared"), mode);
    expect(thrownBy(() => create(temp)).code).toBe("EPERM");
    expect(readdirSync(temp.at("shared"))).toEqual([]);
  });

  test("is refused when somebody has put a link there", () => {
    using temp = new TempDirectory();
    mkdirSync(temp.at("target"), 0o700);
    symlinkSync(temp.at("target"), temp.at("shared"));
    expect(thrownBy(() => create(temp)).code).toBe("EPERM");
    expect(readdirSync(temp.at("target"))).toEqual([]);
  });
});

describe("a final run", () => {
  test("is read-only, and its receipt is the last of its files", () => {
    using temp = new TempDirectory();
    const run = finalRun(temp.at("r"), runId(1), '{"a":1}\n');
    const path = run.path.toString();
    expect(treeOf(path)).toEqual(["events.jsonl", "receipt.json", "stderr.bin", "stdout.bin"]);
    for (const name of treeOf(path)) expect([name, modeOf(join(path, name))]).toEqual([name, 0o400]);
    expect(readFileSync(join(path, "receipt.json"), "utf8")).toBe('{"a":1}\n');
    const inode = (name: string) => statSync(join(path, name)).ctimeMs;
    expect(inode("receipt.json")).toBeGreaterThanOrEqual(inode("stdout.bin"));
  });

  test("is the same when it is put on the disk at once", () => {
    using temp = new TempDirectory();
    const run = createRunDirectory(choiceAt(temp.at("r")), GROUP, runId(1));
    writeSync(run.stdout, "out");
    for (const fd of [run.stdout, run.stderr, run.events]) sealFile(fd, true);
    publishReceipt(run, "{}\n", true);
    expect(treeOf(run.path.toString())).toEqual(["events.jsonl", "receipt.json", "stderr.bin", "stdout.bin"]);
  });
});

describe("latest", () => {
  const latest = (temp: TempDirectory) => readlinkSync(temp.at("r", "artifacts", "prog", GROUP.invocation, "latest"));

  test("is a relative link to the run that became final last", () => {
    using temp = new TempDirectory();
    finalRun(temp.at("r"), runId(2));
    expect(latest(temp)).toBe(runId(2));
    finalRun(temp.at("r"), runId(1));
    expect(latest(temp)).toBe(runId(1));
    expect(readdirSync(temp.at("r", "artifacts", "prog", GROUP.invocation)).sort()).toEqual(
      ["latest", runId(1), runId(2)].sort(),
    );
  });

  test("is the previous run of the next one, whose receipt can be read", () => {
    using temp = new TempDirectory();
    finalRun(temp.at("r"), runId(1), '{"first":true}\n');
    const next = createRunDirectory(choiceAt(temp.at("r")), GROUP, runId(2));
    close(next);
    expect(next.previousId).toBe(runId(1));
    expect(readPreviousReceipt(next)).toBe('{"first":true}\n');
  });

  test.each(["../elsewhere", "run_1", "/etc", `${runId(1)}/..`, `./${runId(1)}`])(
    "that names %p is no previous run",
    (target) => {
      using temp = new TempDirectory();
      const group = temp.at("r", "artifacts", "prog", GROUP.invocation);
      mkdirSync(group, { recursive: true });
      symlinkSync(target, join(group, "latest"));
      const run = createRunDirectory(choiceAt(temp.at("r")), GROUP, runId(2));
      close(run);
      expect(run.previousId).toBeNull();
      expect(readPreviousReceipt(run)).toBeNull();
    },
  );

  test("that names a run which is gone, is a link or has no receipt gives no receipt", () => {
    using temp = new TempDirectory();
    const group = temp.at("r", "artifacts", "prog", GROUP.invocation);
    mkdirSync(join(group, runId(3)), { recursive: true });
    mkdirSync(temp.at("target"));
    writeFileSync(temp.at("target", "receipt.json"), "{}");
    symlinkSync(temp.at("target"), join(group, runId(4)));
    for (const n of [2, 3, 4]) {
      const run: RunDirectory = { ...finalRun(temp.at("r"), runId(10 + n)), previousId: runId(n) };
      expect([n, readPreviousReceipt(run)]).toEqual([n, null]);
    }
  });

  test("that cannot be replaced is only a lost convenience", () => {
    using temp = new TempDirectory();
    mkdirSync(temp.at("r", "artifacts", "prog", GROUP.invocation, "latest", "in-the-way"), { recursive: true });
    const run = createRunDirectory(choiceAt(temp.at("r")), GROUP, runId(1));
    close(run);
    expect(pointLatest(run)).toBe(false);
    expect(readdirSync(temp.at("r", "artifacts", "prog", GROUP.invocation)).sort()).toEqual(["latest", runId(1)]);
  });
});

test("eight brokers at once make every run, and no moment shows a part of a root or no latest", async () => {
  const [brokers, roots, rounds] = [8, 40, 5];
  using temp = new TempDirectory();
  const script = join(import.meta.dir, "../fixtures/make-runs.ts");
  const argv = [process.execPath, script, temp.path, String(roots), String(rounds)];
  for (let i = 0; i < roots; i += 1) mkdirSync(temp.at(String(i)));
  const children = Array.from({ length: brokers }, () => Bun.spawn(argv, { stdin: "ignore", stderr: "pipe" }));
  let running = true;
  const ended = Promise.all(children.map((child) => child.exited)).finally(() => {
    running = false;
  });

  const seen = new Set<string>();
  let looks = 0;
  const wrong: string[] = [];
  const look = (root: string) => {
    looks += 1;
    // Asked first: from then on both files have to be whole.
    if (existsSync(join(root, "artifacts"))) {
      if (readFileSync(join(root, ".gitignore"), "utf8") !== "*\n") wrong.push(`${root}: .gitignore`);
      if (!readFileSync(join(root, "CACHEDIR.TAG"), "utf8").startsWith(SIGNATURE)) wrong.push(`${root}: CACHEDIR.TAG`);
    }
    const group = join(root, "artifacts", "prog", groupOf([Buffer.from("prog")]).invocation);
    if (!seen.has(group) && !lstatSync(join(group, "latest"), { throwIfNoEntry: false })?.isSymbolicLink()) return;
    seen.add(group);
    const name = readlinkSync(join(group, "latest"));
    if (!isRunId(name)) wrong.push(`${group}: latest is ${name}`);
    if (readFileSync(join(group, name, "receipt.json"), "utf8") !== "{}\n")
      wrong.push(`${group}: ${name} is not final`);
  };
  while (running) {
    for (let i = 0; i < roots; i += 1) look(temp.at(String(i), ".agent-shell"));
    await new Promise(setImmediate);
  }
  await ended;

  const errors = await Promise.all(children.map((child) => new Response(child.stderr).text()));
  expect({ codes: children.map((child) => child.exitCode), errors: errors.join("") }).toEqual({
    codes: Array(brokers).fill(0),
    errors: "",
  });
  expect(wrong).toEqual([]);
  expect(looks).toBeGreaterThan(roots);
  for (let i = 0; i < roots; i += 1) {
    const root = temp.at(String(i), ".agent-shell");
    expect(readdirSync(root).sort()).toEqual([".gitignore", "CACHEDIR.TAG", "artifacts"]);
    const group = join(root, "artifacts", "prog", groupOf([Buffer.from("prog")]).invocation);
    const names = readdirSync(group).filter((name) => name !== "latest");
    expect(names.filter((name) => !isRunId(name))).toEqual([]);
    expect(names).toHaveLength(brokers * rounds);
    expect(names).toContain(readlinkSync(join(group, "latest")));
  }
}, 30_000);
