import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import {
  chmodSync,
  lutimesSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fromByteText } from "../../src/base/bytes.ts";
import { ChangesFileSchema } from "../../src/evidence/changes.ts";
import { compareTrees, observeTree, type TreeChanges } from "../../src/run/track.ts";
import { TRACK_LIMITS, type TrackLimits, type TreeSnapshot } from "../../src/run/tree-snapshot.ts";

const RUN_ID = "run_20260828T140312.417000Z-a1b2c3d4";
const IS_ROOT = process.getuid?.() === 0;

let tree = "";
beforeEach(() => {
  tree = mkdtempSync(join(tmpdir(), "ash-track-"));
});
afterEach(() => {
  Bun.spawnSync(["chmod", "-R", "u+rwx", tree]);
  rmSync(tree, { recursive: true, force: true });
});

function put(path: string, content: string | Uint8Array = path): void {
  mkdirSync(dirname(join(tree, path)), { recursive: true });
  writeFileSync(join(tree, path), content);
}

interface Setting {
  paths?: string[];
  limits?: Partial<TrackLimits>;
  stores?: string[];
  nowNs?: () => number;
}

function observe({ paths = ["."], limits, stores = [], nowNs }: Setting = {}, before?: TreeSnapshot): TreeSnapshot {
  return observeTree(
    paths.map((path) => Buffer.from(path)),
    {
      cwd: Buffer.from(tree),
      stores: stores.map((store) => Buffer.from(store)),
      limits: { ...TRACK_LIMITS, ms: 60_000, ...limits },
      ...(before === undefined ? {} : { before }),
      ...(nowNs === undefined ? {} : { nowNs }),
    },
  );
}

/** Observes around `run`; what comes out is a valid document. */
function track(run: () => void, setting: Setting = {}, settingAfter: Setting = setting): TreeChanges {
  const before = observe(setting);
  run();
  const changes = compareTrees(before, observe(settingAfter, before));
  ChangesFileSchema.parse(JSON.parse(JSON.stringify({ schema: "agent-shell/changes@1", run_id: RUN_ID, ...changes })));
  return changes;
}

/** `+0:path` for what was added, likewise `-` and `~`. */
function brief({ items }: TreeChanges): string[] {
  const signs = { added: "+", removed: "-", modified: "~" };
  return items.map(({ kind, root, path }) => `${signs[kind]}${root}:${fromByteText(path).toString("latin1")}`);
}

const pathsOf = (snapshot: TreeSnapshot): string[] => [...snapshot.entries.values()].map(({ path }) => path).sort();

describe("what counts as a change", () => {
  test("files that appear, disappear and get another content are told apart", () => {
    put("kept");
    put("gone");
    put("d/edited", "one");
    const changes = track(() => {
      rmSync(join(tree, "gone"));
      put("d/edited", "three");
      put("d/new/file");
    });
    expect(brief(changes)).toEqual(["~0:d/edited", "+0:d/new/file", "-0:gone"]);
    expect(changes).toMatchObject({ complete: true, reason: null, counts: { added: 1, removed: 1, modified: 1 } });
    expect(changes.items[0]).toMatchObject({
      before: { type: "file", size: 3, sha256: new Bun.CryptoHasher("sha256").update("one").digest("hex") },
      after: { type: "file", size: 5, sha256: new Bun.CryptoHasher("sha256").update("three").digest("hex") },
    });
  });

  test("a content of the same size with the time set back is found", () => {
    put("f", "one");
    const { atime, mtime } = statSync(join(tree, "f"));
    utimesSync(join(tree, "f"), atime, mtime);
    const changes = track(() => {
      put("f", "two");
      utimesSync(join(tree, "f"), atime, mtime);
    });
    expect(brief(changes)).toEqual(["~0:f"]);
    expect(changes.items[0]?.before?.mtime).toBe(changes.items[0]?.after?.mtime ?? null);
  });

  test("a new time with the same content is none", () => {
    put("f");
    expect(brief(track(() => utimesSync(join(tree, "f"), 1, 1)))).toEqual([]);
  });

  test("the same content in another file is none", () => {
    put("f", "same");
    const changes = track(() => {
      put("g", "same");
      renameSync(join(tree, "g"), join(tree, "f"));
    });
    expect(brief(changes)).toEqual([]);
  });

  test("another mode is one", () => {
    put("f");
    chmodSync(join(tree, "f"), 0o644);
    const changes = track(() => chmodSync(join(tree, "f"), 0o4755));
    expect(changes.items[0]).toMatchObject({ kind: "modified", before: { mode: "0644" }, after: { mode: "4755" } });
  });

  test("for a file above the limit of contents, time and size decide", () => {
    put("f", "one");
    put("g", "one");
    const changes = track(
      () => {
        put("f", "two");
        utimesSync(join(tree, "f"), 5, 5);
      },
      { limits: { hashBytes: 2 } },
    );
    expect(brief(changes)).toEqual(["~0:f"]);
    expect(changes.items[0]?.after).toMatchObject({ mtime: "1970-01-01T00:00:05.000000000Z", sha256: null });
    expect(changes.complete).toBe(true);
  });

  test("a file of 16 MiB is read, a larger one is not", () => {
    put("whole", "");
    put("larger", "");
    truncateSync(join(tree, "whole"), 16 * 2 ** 20);
    truncateSync(join(tree, "larger"), 16 * 2 ** 20 + 1);
    const { entries } = observe();
    expect(entries.get("0:whole")?.sha256).toBe(
      new Bun.CryptoHasher("sha256").update(new Uint8Array(16 * 2 ** 20)).digest("hex"),
    );
    expect(entries.get("0:larger")?.sha256).toBeNull();
  });

  test("a time outside the years of RFC 3339 is null", () => {
    put("f");
    utimesSync(join(tree, "f"), 1, 1);
    const before = observe();
    before.entries.get("0:f")!.mtimeNs = -1n;
    const after = observe();
    after.entries.get("0:f")!.mtimeNs = 10n ** 21n;
    after.entries.get("0:f")!.mode = 0;
    expect(compareTrees(before, after).items[0]).toMatchObject({
      before: { mtime: "1969-12-31T23:59:59.999999999Z" },
      after: { mtime: null },
    });
  });

  test("a name that is not UTF-8 round-trips", () => {
    const name = Buffer.from("x\xff\xe9", "latin1");
    const changes = track(() => writeFileSync(Buffer.concat([Buffer.from(`${tree}/`), name]), ""));
    expect(changes.items[0]?.path).toEqual({ base64: name.toString("base64") });
  });
});

describe("symlinks and special files", () => {
  test("a symlink is its target's text and is not followed", () => {
    put("d/f");
    symlinkSync("d", join(tree, "link"));
    symlinkSync("..", join(tree, "d/up"));
    const changes = track(() => {
      rmSync(join(tree, "link"));
      symlinkSync("e", join(tree, "link"));
      lutimesSync(join(tree, "d/up"), 1, 1);
    });
    expect(brief(changes)).toEqual(["~0:link"]);
    expect(changes.items[0]?.after).toMatchObject({
      type: "symlink",
      size: 1,
      sha256: new Bun.CryptoHasher("sha256").update("e").digest("hex"),
    });
    expect(changes.after.files).toBe(3);
  });

  test("a directory that became a symlink lost its files", () => {
    put("d/f");
    const changes = track(() => {
      renameSync(join(tree, "d"), join(tree, "e"));
      symlinkSync("e", join(tree, "d"));
    });
    expect(brief(changes)).toEqual(["+0:d", "-0:d/f", "+0:e/f"]);
  });

  test("a FIFO is not opened, a .gitignore that is one is none", () => {
    Bun.spawnSync(["mkfifo", join(tree, "pipe"), join(tree, ".gitignore")]);
    const snapshot = observe();
    expect(snapshot.entries.get("0:pipe")).toMatchObject({ type: "fifo", sha256: null });
    expect(snapshot.problems).toEqual([]);
  });
});

describe("what is left out", () => {
  test("ignored files, .git, and stores by name and by place", () => {
    put(".gitignore", "*.log\n/out/\n");
    for (const path of ["a", "a.log", "out/a", "d/out/a", "d/.git/HEAD", ".git/HEAD"]) put(path);
    for (const path of ["d/.agent-shell/x", "kept-here/x"]) put(path);
    const snapshot = observe({ stores: [join(tree, "kept-here")] });
    expect(pathsOf(snapshot)).toEqual([".gitignore", "a", "d/out/a"]);
    expect(snapshot.ignored).toBe(2);
    expect(snapshot.problemCount).toBe(0);
  });

  test("a tracked path in a store is refused, and the observation incomplete", () => {
    put(".agent-shell/artifacts/x");
    const changes = track(() => put(".agent-shell/artifacts/y"), { paths: [".agent-shell/artifacts"] });
    expect(changes).toMatchObject({ complete: false, items: [], paths: [{ before: "unknown", after: "unknown" }] });
    expect(changes.reason).toBe(
      "before: .: a store of ours is not observed; after: .: a store of ours is not observed",
    );
  });

  test("a .gitignore above counts up to the top of the repository, and not where it ignores what was asked for", () => {
    put(".gitignore", "*.outside");
    put("repo/.git/HEAD");
    put("repo/.gitignore", "*.log\n/src/gen\n/dist\n");
    put("repo/src/.gitignore", "!keep.log");
    for (const name of ["x.log", "keep.log", "x.outside", "gen/x", "x"]) {
      put(`repo/src/lib/${name}`);
      put(`repo/src/${name}`);
      put(`repo/dist/${name}`);
    }
    expect(pathsOf(observe({ paths: ["repo/src/lib"] }))).toEqual(["gen/x", "keep.log", "x", "x.outside"]);
    expect(pathsOf(observe({ paths: ["repo/src"] }))).not.toContain("gen/x");
    expect(pathsOf(observe({ paths: ["repo/dist"] }))).toHaveLength(5);
  });

  test("a file that becomes ignored is not called removed", () => {
    put("a.log", "one");
    put("d/f");
    const changes = track(() => {
      put(".gitignore", "*.log\nd/\nnew/");
      put("a.log", "two");
      put("b.log");
      put("new/f");
    });
    expect(brief(changes)).toEqual(["+0:.gitignore", "~0:a.log"]);
  });

  test("a file that is no longer ignored is not called added", () => {
    put(".gitignore", "*.log\nd/");
    put("a.log");
    put("d/f");
    expect(brief(track(() => put(".gitignore", "")))).toEqual(["~0:.gitignore"]);
  });

  test("a new directory brings its own .gitignore", () => {
    expect(
      brief(
        track(() => {
          put("crate/.gitignore", "/target");
          put("crate/target/x");
          put("crate/main.rs");
        }),
      ),
    ).toEqual(["+0:crate/.gitignore", "+0:crate/main.rs"]);
  });
});

describe("tracked paths", () => {
  test("one that is missing before, a file, or a directory", () => {
    put("file", "one");
    const changes = track(
      () => {
        put("file", "two");
        put("dist/x");
      },
      { paths: ["file", "dist", join(tree, "never")] },
    );
    expect(brief(changes)).toEqual(["~0:.", "+1:x"]);
    expect(changes.paths.map(({ before, after }) => `${before} ${after}`)).toEqual([
      "file file",
      "missing directory",
      "missing missing",
    ]);
    expect(changes.complete).toBe(true);
  });

  test("one that turns from a file into a directory, and back", () => {
    put("p");
    const forth = track(
      () => {
        rmSync(join(tree, "p"));
        put("p/x");
      },
      { paths: ["p"] },
    );
    expect(brief(forth)).toEqual(["-0:.", "+0:x"]);
    const back = track(
      () => {
        rmSync(join(tree, "p"), { recursive: true });
        put("p");
      },
      { paths: ["p"] },
    );
    expect(brief(back)).toEqual(["+0:.", "-0:x"]);
  });

  test("a directory under two of them belongs to the first", () => {
    put("src/x", "one");
    expect(brief(track(() => put("src/x", "two"), { paths: [".", "src"] }))).toEqual(["~0:src/x"]);
    expect(brief(track(() => put("src/x", "three"), { paths: ["src", "."] }))).toEqual(["~0:x"]);
  });

  test("an ignored directory that is asked for besides is observed", () => {
    put(".git/HEAD");
    put(".gitignore", "dist/");
    put("dist/x");
    expect(brief(track(() => put("dist/y"), { paths: [".", "dist"] }))).toEqual(["+1:y"]);
  });
});

describe("bounds and problems", () => {
  test("exactly as many files as allowed are complete, one more is not", () => {
    for (const name of ["a", "b", "c"]) put(name);
    expect(observe({ limits: { files: 3 } }).bounds).toEqual([]);
    const snapshot = observe({ limits: { files: 2 } });
    expect(snapshot.bounds).toEqual(["files"]);
    expect(pathsOf(snapshot)).toEqual(["a", "b"]);
  });

  test("beyond the bound nothing is called added or removed", () => {
    for (const name of ["b", "c", "d/x", "e"]) put(name);
    const changes = track(
      () => {
        put("a");
        rmSync(join(tree, "c"));
        put("d/y");
        put("f");
      },
      { limits: { files: 2 } },
      { limits: { files: 100 } },
    );
    expect(brief(changes)).toEqual(["-0:c"]);
    expect(changes).toMatchObject({ complete: false, reason: "before: more than 2 files" });
  });

  test("what the walk no longer reaches afterwards is looked up by its name", () => {
    for (const name of ["b", "c", "d/x"]) put(name);
    const changes = track(
      () => {
        put("a");
        rmSync(join(tree, "c"));
        put("d/x", "other");
      },
      { limits: { files: 3 } },
      { limits: { files: 1 } },
    );
    expect(brief(changes)).toEqual(["+0:a", "-0:c", "~0:d/x"]);
    expect(changes.reason).toBe("after: more than 1 files");
  });

  test("when the time is over before a look, nothing is reported", () => {
    put("a");
    let calls = 0;
    const late = (): number => (calls++ === 0 ? 0 : 3e12);
    const changes = track(() => rmSync(join(tree, "a")), {}, { nowNs: late });
    expect(changes).toMatchObject({ complete: false, items: [], after: { bounds: ["time"], files: 0 } });
    expect(changes.reason).toBe("after: longer than 60000 ms");
  });

  test("a clock that stops for contents leaves size and time to compare, what looks changed being read first", () => {
    put("a", "same");
    put("b", "one");
    utimesSync(join(tree, "b"), 5, 5);
    const before = observe();
    put("b", "two");
    let listed = Number.POSITIVE_INFINITY;
    let calls = 0;
    const counting = (): number => {
      calls += 1;
      return calls > listed ? 3e12 : 0;
    };
    observe({ nowNs: counting, limits: { hashBytes: -1 } }, before);
    // One call ends the walk above; the same number and one more lets exactly one content through here.
    listed = calls;
    calls = 0;
    const after = observe({ nowNs: counting }, before);
    expect(after.bounds).toEqual(["time"]);
    expect(after.entries.get("0:a")?.sha256).toBeNull();
    expect(after.entries.get("0:b")?.sha256).toBe(new Bun.CryptoHasher("sha256").update("two").digest("hex"));
    expect(brief(compareTrees(before, after))).toEqual(["~0:b"]);
  });

  test.skipIf(IS_ROOT)("a directory that cannot be listed is a problem, and its files are not called removed", () => {
    put("d/x");
    put("e");
    const changes = track(() => chmodSync(join(tree, "d"), 0));
    expect(brief(changes)).toEqual([]);
    expect(changes).toMatchObject({ complete: false, before: { complete: true } });
    expect(changes.reason).toBe("after: d: EACCES, and 1 more");
  });

  test.skipIf(IS_ROOT)("a file that cannot be read is a problem and is compared by size and time", () => {
    put("f", "one");
    chmodSync(join(tree, "f"), 0);
    const changes = track(() => utimesSync(join(tree, "f"), 1, 1));
    expect(brief(changes)).toEqual(["~0:f"]);
    expect(changes.before.problems).toEqual([{ root: 0, path: "f", reason: "EACCES" }]);
  });

  test("no more than 100 problems are listed, all are counted", () => {
    const before = observe();
    const after = observe({}, before);
    after.problemCount = 250;
    after.problems.push({ root: 0, path: "a\xff", reason: "EIO" });
    const changes = compareTrees(before, after);
    expect(changes.reason).toBe("after: a\\xff: EIO, and 249 more");
    expect(changes.after).toMatchObject({ complete: false, problem_count: 250 });
  });
});
