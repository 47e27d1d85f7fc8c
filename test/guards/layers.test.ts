import { expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { basename, dirname, join, normalize } from "node:path";

/** What each folder of src may import besides itself. Type imports are free: they leave nothing in the program. */
const MAY_IMPORT: Record<string, string[]> = {
  base: [],
  evidence: ["base"],
  store: ["evidence", "base"],
  run: ["store", "evidence", "base"],
  query: ["store", "evidence", "base"],
  watch: ["query", "store", "evidence", "base"],
  flow: ["run", "query", "store", "evidence", "base"],
  bench: ["run", "query", "store", "evidence", "base"],
  agent: ["run", "query", "store", "evidence", "base"],
  render: ["evidence", "base"],
  cli: ["agent", "flow", "bench", "watch", "render", "run", "query", "store", "evidence", "base"],
};
/** Packages that only these folders may import. */
const PACKAGE_FOLDERS: Record<string, string[]> = {
  pidusage: ["run"],
  zod: ["evidence", "cli"],
};
const VAGUE_NAMES = ["utils", "helpers", "common", "types", "index", "manager", "service", "handler", "misc"];
const MAX_LINES = 400;

const SRC = join(import.meta.dir, "../../src");
const transpiler = new Bun.Transpiler({ loader: "ts" });

interface SourceFile {
  path: string;
  /** The folder of src it lives in; undefined for the entries beside the folders. */
  folder: string | undefined;
  lines: number;
  imports: { specifier: string; lazy: boolean }[];
}

function readSource(path: string): SourceFile {
  const text = readFileSync(join(SRC, path), "utf8");
  const imports = transpiler
    .scanImports(text)
    .map(({ path: specifier, kind }) => ({ specifier, lazy: kind === "dynamic-import" }));
  const lines = text.split("\n").length - (text.endsWith("\n") ? 1 : 0);
  return { path, folder: folderOf(path), lines, imports };
}

function folderOf(path: string): string | undefined {
  return path.includes("/") ? path.slice(0, path.indexOf("/")) : undefined;
}

/** Returns the imported file's path under src, or undefined for a package, a built-in or a file outside src. */
function resolveImport(from: string, specifier: string): string | undefined {
  if (!specifier.startsWith(".")) return undefined;
  const path = normalize(join(dirname(from), specifier));
  return path.startsWith("..") ? undefined : path;
}

const files = [...new Bun.Glob("**/*.{ts,tsx,mts}").scanSync(SRC)].sort().map(readSource);
const fileByPath = new Map(files.map((file) => [file.path, file]));

test("every folder of src is in the layer table", () => {
  const unknown = files.filter((file) => file.folder !== undefined && !(file.folder in MAY_IMPORT));
  expect(unknown.map((file) => file.path)).toEqual([]);
});

test("imports follow the layers", () => {
  const wrong = files.flatMap(({ path, folder, imports }) =>
    imports.flatMap(({ specifier }) => {
      const target = resolveImport(path, specifier);
      if (target === undefined || folder === undefined) return [];
      const targetFolder = folderOf(target);
      // cli is the top: it may import the files beside the folders too.
      if (targetFolder === folder || (folder === "cli" && targetFolder === undefined)) return [];
      return targetFolder !== undefined && MAY_IMPORT[folder]?.includes(targetFolder) ? [] : [`${path} -> ${target}`];
    }),
  );
  expect(wrong).toEqual([]);
});

test("imports are written with the name of a file that exists", () => {
  const missing = files.flatMap(({ path, imports }) =>
    imports
      .map(({ specifier }) => resolveImport(path, specifier))
      .filter((target) => target !== undefined && !existsSync(join(SRC, target)))
      .map((target) => `${path} -> ${target}`),
  );
  expect(missing).toEqual([]);
});

test("packages are imported only where they belong", () => {
  const wrong = files.flatMap(({ path, folder, imports }) =>
    imports
      .filter(({ specifier }) => {
        const owners = PACKAGE_FOLDERS[specifier.split("/")[0] ?? ""];
        return owners !== undefined && !(folder !== undefined && owners.includes(folder));
      })
      .map(({ specifier }) => `${path} -> ${specifier}`),
  );
  expect(wrong).toEqual([]);
});

test("static imports form no cycle", () => {
  const cycles: string[] = [];
  const done = new Set<string>();
  const visit = (path: string, trail: string[]): void => {
    const start = trail.indexOf(path);
    if (start >= 0) {
      cycles.push([...trail.slice(start), path].join(" -> "));
      return;
    }
    if (done.has(path)) return;
    for (const { specifier, lazy } of fileByPath.get(path)?.imports ?? []) {
      const target = resolveImport(path, specifier);
      if (!lazy && target !== undefined) visit(target, [...trail, path]);
    }
    done.add(path);
  };
  for (const file of files) visit(file.path, []);
  expect(cycles).toEqual([]);
});

test(`no file of src has more than ${MAX_LINES} lines`, () => {
  expect(files.filter((file) => file.lines > MAX_LINES).map((file) => `${file.path}: ${file.lines}`)).toEqual([]);
});

test("files are named for what they are, in kebab-case", () => {
  const stem = (path: string): string => basename(path).replace(/\.[a-z]+$/, "");
  const vague = files.filter(
    ({ path }) => VAGUE_NAMES.includes(stem(path)) || !/^[a-z0-9]+(-[a-z0-9]+)*$/.test(stem(path)),
  );
  expect(vague.map((file) => file.path)).toEqual([]);
});

test("a built-in is required inside a function in src/base/files.ts only", () => {
  const requiring = files.filter(({ path }) => /\brequire\(/.test(readFileSync(join(SRC, path), "utf8")));
  expect(requiring.map(({ path }) => path)).toEqual(["base/files.ts"]);
});
