import { expect, test } from "bun:test";
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { compareTrees, observeTree, type TreeChanges } from "../../src/run/track.ts";
import { TRACK_LIMITS, type TrackOptions } from "../../src/run/tree-snapshot.ts";

type Edit = { path: string[] } & (
  | { kind: "write"; content: string }
  | { kind: "link"; content: string }
  | { kind: "mode"; mode: number }
  | { kind: "touch" }
  | { kind: "remove" }
);

const path = fc.array(fc.constantFrom("a", "b", "c", "d"), { minLength: 1, maxLength: 3 });
const content = fc.constantFrom("", "one", "two", "three");
const edit: fc.Arbitrary<Edit> = fc.oneof(
  { weight: 5, arbitrary: fc.record({ kind: fc.constant("write" as const), path, content }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant("link" as const), path, content: fc.constantFrom("a", "..") }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant("mode" as const), path, mode: fc.constantFrom(0o644, 0o755) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("touch" as const), path }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("remove" as const), path }) },
);
const edits = fc.array(edit, { maxLength: 12 });
const rules = fc
  .array(fc.constantFrom("a", "b/", "/c", "*", "!a", "!b/", "a/*", "**/d", "d/**", "!d", "!*/", "[ab]"), {
    maxLength: 4,
  })
  .map((lines) => lines.join("\n"));
/** Where a .gitignore goes, and what it says. */
const ruleFiles = fc.array(fc.tuple(fc.constantFrom("", "a", "b", "a/b"), rules), { maxLength: 3 });

function apply(tree: string, { path: names, ...change }: Edit): void {
  const place = join(tree, ...names);
  // What is in the way goes; no edit leaves the tree through a link.
  for (let depth = 1; depth < names.length; depth += 1) {
    const parent = join(tree, ...names.slice(0, depth));
    const state = lstatSync(parent, { throwIfNoEntry: false });
    if (state !== undefined && !state.isDirectory()) rmSync(parent);
    if (state?.isDirectory() !== true) {
      if (change.kind === "mode" || change.kind === "touch" || change.kind === "remove") return;
      mkdirSync(parent);
    }
  }
  const state = lstatSync(place, { throwIfNoEntry: false });
  if (change.kind === "write" || change.kind === "link") {
    if (state !== undefined && !(state.isFile() && change.kind === "write")) rmSync(place, { recursive: true });
    if (change.kind === "write") writeFileSync(place, change.content);
    else symlinkSync(change.content, place);
  } else if (change.kind === "remove") rmSync(place, { recursive: true, force: true });
  else if (state?.isFile() === true) {
    if (change.kind === "mode") chmodSync(place, change.mode);
    else utimesSync(place, 1, 1);
  }
}

function applyRules(tree: string, files: readonly (readonly [string, string])[]): void {
  for (const [directory, text] of files) {
    const levels = directory.split("/").map((_, at, names) => join(tree, ...names.slice(0, at + 1)));
    // The topmost that is no directory is in the way; below it lstat would fail.
    const top = levels.find((level) => lstatSync(level, { throwIfNoEntry: false })?.isDirectory() !== true);
    if (top !== undefined && lstatSync(top, { throwIfNoEntry: false }) !== undefined) continue;
    mkdirSync(join(tree, directory), { recursive: true });
    writeFileSync(join(tree, directory, ".gitignore"), text);
  }
}

/** Everything in a tree, slowly: type, mode and the whole content by path. */
function readTree(directory: string, within = ""): Map<string, string> {
  const found = new Map<string, string>();
  for (const name of readdirSync(directory)) {
    const place = join(directory, name);
    const state = lstatSync(place);
    if (state.isDirectory()) for (const [inner, text] of readTree(place, `${within}${name}/`)) found.set(inner, text);
    else if (state.isSymbolicLink()) found.set(within + name, `link ${readlinkSync(place)}`);
    else found.set(within + name, `file ${state.mode} ${readFileSync(place, "utf8")}`);
  }
  return found;
}

function slowComparison(before: Map<string, string>, after: Map<string, string>): string[] {
  const changes: string[] = [];
  for (const name of new Set([...before.keys(), ...after.keys()])) {
    if (!before.has(name)) changes.push(`added ${name}`);
    else if (!after.has(name)) changes.push(`removed ${name}`);
    else if (before.get(name) !== after.get(name)) changes.push(`modified ${name}`);
  }
  return changes.sort();
}

const brief = ({ items }: TreeChanges): string[] => items.map((item) => `${item.kind} ${item.path}`).sort();

function inTree(body: (tree: string) => void): void {
  const tree = mkdtempSync(join(tmpdir(), "ash-track-"));
  try {
    body(tree);
  } finally {
    rmSync(tree, { recursive: true, force: true });
  }
}

const options = (tree: string): TrackOptions => ({
  cwd: Buffer.from(tree),
  stores: [],
  limits: { ...TRACK_LIMITS, ms: 60_000 },
});
const HERE = [Buffer.from(".")];

test("the changes are those that a slow comparison of all contents finds", () => {
  fc.assert(
    fc.property(edits, edits, (first, second) =>
      inTree((tree) => {
        for (const one of first) apply(tree, one);
        const all = readTree(tree);
        const before = observeTree(HERE, options(tree));
        for (const one of second) apply(tree, one);
        const changes = compareTrees(before, observeTree(HERE, { ...options(tree), before }));
        expect(brief(changes)).toEqual(slowComparison(all, readTree(tree)));
        expect(changes.complete).toBe(true);
      }),
    ),
    { numRuns: 100 },
  );
}, 30_000);

test("with any bounds, any rules and any change of the rules, every reported change is a real one", () => {
  const bound = fc.record({ files: fc.integer({ min: 0, max: 12 }), looks: fc.integer({ min: 0, max: 60 }) });
  fc.assert(
    fc.property(edits, ruleFiles, bound, edits, ruleFiles, bound, (first, rulesFirst, one, second, rulesSecond, two) =>
      inTree((tree) => {
        const bounded = ({ files, looks }: typeof one): TrackOptions => {
          let calls = 0;
          return {
            ...options(tree),
            limits: { ...TRACK_LIMITS, files },
            nowNs: () => (calls++ <= looks ? 0 : 1e15),
          };
        };
        for (const change of first) apply(tree, change);
        applyRules(tree, rulesFirst);
        const all = readTree(tree);
        const before = observeTree(HERE, bounded(one));
        for (const change of second) apply(tree, change);
        applyRules(tree, rulesSecond);
        const changes = compareTrees(before, observeTree(HERE, { ...bounded(two), before }));
        const real = new Set(slowComparison(all, readTree(tree)));
        // Where a content was not read, a new time stands for a change.
        const wrong = changes.items.filter(
          (item) =>
            !real.has(`${item.kind} ${item.path}`) &&
            !(item.kind === "modified" && (item.before.sha256 === null || item.after.sha256 === null)),
        );
        expect(wrong).toEqual([]);
      }),
    ),
    { numRuns: 200 },
  );
}, 60_000);

test.skipIf(Bun.which("git") === null)(
  "what is observed is what git lists as untracked and not ignored",
  () => {
    fc.assert(
      fc.property(edits, ruleFiles, (changes, files) =>
        inTree((tree) => {
          for (const change of changes) apply(tree, change);
          applyRules(tree, files);
          const git = (...words: string[]): string =>
            Bun.spawnSync(["git", "-C", tree, ...words], {
              env: { PATH: process.env.PATH, GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1" },
            }).stdout.toString();
          git("init", "-q", ".");
          const listed = git("ls-files", "--others", "--exclude-per-directory=.gitignore", "-z")
            .split("\0")
            .slice(0, -1);
          const { entries } = observeTree(HERE, options(tree));
          expect([...entries.values()].map((entry) => entry.path).sort()).toEqual(listed.sort());
        }),
      ),
      { numRuns: 100 },
    );
  },
  60_000,
);
