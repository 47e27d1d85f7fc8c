import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { isIgnored, matchIgnoreRules, parseIgnoreRules } from "../../src/run/ignore-rules.ts";

const HAS_GIT = Bun.which("git") !== null;

/** Text of a .gitignore, a path of a file, and whether it is ignored. */
const TABLE: [string, string, boolean][] = [
  ["", "a", false],
  ["a", "a", true],
  ["a", "deep/down/a", true],
  ["a", "a/in/it", true],
  ["a", "ab", false],
  ["# a\n\n", "# a", false],
  ["\\#a", "#a", true],
  ["\\!a", "!a", true],
  ["a\r\n", "a", true],
  ["a  ", "a", true],
  ["a\\ ", "a ", true],
  ["a\\  ", "a ", true],
  ["a\t", "a", false],
  ["\xef\xbb\xbfa", "a", true],
  ["/a", "a", true],
  ["/a", "d/a", false],
  ["d/a", "d/a", true],
  ["d/a", "e/d/a", false],
  ["a/", "a", false],
  ["a/", "a/b", true],
  ["a/", "d/a/b", true],
  ["*.log", "x.log", true],
  ["*.log", "d/x.log", true],
  ["*.log", "x.logs", false],
  ["/*.log", "d/x.log", false],
  ["d/*", "d/a", true],
  ["d/*.log", "d/e/x.log", false],
  ["a?c", "abc", true],
  ["d?a", "d/a", false],
  ["**/a", "a", true],
  ["**/a", "d/e/a", true],
  ["d/**", "d/e/a", true],
  ["d/**/a", "d/a", true],
  ["d/**/a", "d/e/f/a", true],
  ["d/**/a", "d/ea", false],
  ["d/a**b", "d/a/b", false],
  ["foo**/bar", "foo/a/bar", true],
  ["?oo**/bar", "foo/a/bar", false],
  ["***/a", "d/a", true],
  ["[a-c]", "b", true],
  ["[!a-c]", "b", false],
  ["[^a-c]", "d", true],
  ["[]a]", "]", true],
  ["[a\\]b]", "]", true],
  ["[a-]", "-", true],
  ["x[/]y", "x/y", false],
  ["[a", "[a", false],
  ["a\\", "a", false],
  ["[[:digit:]]x", "1x", true],
  ["[[:nothing:]]", "a", false],
  ["[[:constructor:]]", "a", false],
  ["[[:alpha]", "p", true],
  ["\\*", "*", true],
  ["\\*", "a", false],
  ["!", "!", false],
  ["/", "a", false],
  ["*\n!a", "a", false],
  ["!a\n*", "a", true],
  ["d\n!d/a", "d/a", true],
  ["d/*\n!d/a", "d/a", false],
  ["\xe9?", "\xe9\xff", true],
];

/** As a walk meets it: whatever is below an ignored directory is ignored. */
function isLeftOut(text: string, path: string): boolean {
  const chain = { rules: parseIgnoreRules(text), base: 0, outer: null };
  const parts = path.split("/");
  return parts.some((_, at) => isIgnored(chain, parts.slice(0, at + 1).join("/"), at + 1 < parts.length));
}

describe("ignore rules", () => {
  test.each(TABLE)("%j makes of %j: ignored %p", (text, path, ignored) => {
    expect(isLeftOut(text, path)).toBe(ignored);
  });

  test("an inner .gitignore wins over an outer one, directory by directory", () => {
    const outer = { rules: parseIgnoreRules("foo\n*.log"), base: 0, outer: null };
    const inner = { rules: parseIgnoreRules("!foo\n!/keep.log"), base: "a/".length, outer };
    expect(isIgnored(outer, "a/foo", true)).toBe(true);
    expect(isIgnored(inner, "a/foo", true)).toBe(false);
    expect(isIgnored(inner, "a/foo/bar", false)).toBe(false);
    expect(isIgnored(inner, "a/keep.log", false)).toBe(false);
    expect(isIgnored(inner, "a/b/keep.log", false)).toBe(true);
  });

  test("a rule for directories says nothing of a file", () => {
    expect(matchIgnoreRules(parseIgnoreRules("a/"), "a", false)).toBeNull();
    expect(matchIgnoreRules(parseIgnoreRules("a/"), "a", true)).toBe(true);
  });

  test("a pattern that backtracks catastrophically is matched in time", () => {
    const rules = parseIgnoreRules(`${"*a".repeat(100)}b\n/x/${"**/a/".repeat(60)}b`);
    const startNs = Bun.nanoseconds();
    expect(matchIgnoreRules(rules, "a".repeat(255), false)).toBeNull();
    expect(matchIgnoreRules(rules, `x/${"a/".repeat(1000)}c`, false)).toBeNull();
    expect(Bun.nanoseconds() - startNs).toBeLessThan(1e9);
  });
});

describe.skipIf(!HAS_GIT)("git check-ignore agrees", () => {
  let directory = "";
  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), "ash-ignore-"));
    git(["init", "-q", "."], Buffer.alloc(0));
  });
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  function git(words: string[], stdin: Buffer): Buffer {
    const environment = { PATH: process.env.PATH, GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1" };
    return Bun.spawnSync(["git", "-C", directory, ...words], { stdin, env: environment }).stdout;
  }

  /** The paths that git ignores, of `paths`; none of them need exist. */
  function ignoredByGit(text: string, paths: readonly string[]): string[] {
    writeFileSync(join(directory, ".gitignore"), text, "latin1");
    const input = Buffer.from(paths.map((path) => `${path}\0`).join(""), "latin1");
    return git(["check-ignore", "--no-index", "-z", "--stdin"], input).toString("latin1").split("\0").slice(0, -1);
  }

  test("with every line of the table", () => {
    const wrong = TABLE.filter(([text, path, ignored]) => ignoredByGit(text, [path]).length > 0 !== ignored);
    expect(wrong).toEqual([]);
  });

  test("with random patterns", () => {
    const piece = fc.constantFrom(
      ...["a", "b", "foo", "/", "/", "*", "*", "**", "?", "[a-c]", "[!a]", "[", "]", "\\", "-", "!", "#", " "],
      ...["[[:alpha:]]", "[]a]", "**/", "/**", "[a\\]b]", "\\*", "\xe9", "[\xe0-\xff]"],
    );
    const text = fc.array(fc.array(piece, { minLength: 1, maxLength: 6 }), { minLength: 1, maxLength: 3 });
    const name = fc.constantFrom(
      ...["a", "b", "c", "foo", "fooa", "ab", "-", "]", "*", "!a", "#a", "a b", "aab", "[a", "\\a", "\xe9", "a\xff"],
    );
    const paths = fc.uniqueArray(
      fc.array(name, { minLength: 1, maxLength: 4 }).map((names) => names.join("/")),
      { minLength: 20, maxLength: 40 },
    );
    fc.assert(
      fc.property(text, paths, (lines, candidates) => {
        const rules = lines.map((pieces) => pieces.join("")).join("\n");
        expect(candidates.filter((path) => isLeftOut(rules, path))).toEqual(ignoredByGit(rules, candidates));
      }),
      { numRuns: 150 },
    );
  }, 30_000);
});
