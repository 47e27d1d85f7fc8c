/** The hot path: every module that loads before `ash` starts the child. Lazy imports are not part of it. */
import { existsSync } from "node:fs";
import { join, relative } from "node:path";

export interface HotPath {
  /** Own source files, relative to the root, sorted. */
  inputs: string[];
  /** Built-in modules, sorted. */
  externals: string[];
}

const ROOT = join(import.meta.dir, "..");
const ENTRIES = ["src/main.ts", "src/ash.ts"];

/** Returns what the entries import statically, directly or not; type imports are gone by then. */
export async function readHotPath(): Promise<HotPath> {
  const entries = ENTRIES.filter((entry) => existsSync(join(ROOT, entry)));
  if (entries.length === 0) return { inputs: [], externals: [] };
  const result = await Bun.build({
    entrypoints: entries.map((entry) => join(ROOT, entry)),
    root: ROOT,
    target: "bun",
    format: "esm",
    splitting: true,
    metafile: true,
  });
  const graph = result.metafile?.inputs;
  if (graph === undefined) throw new Error("Bun.build returned no metafile");
  const byName = new Map(
    Object.entries(graph).map(([path, input]) => [relative(ROOT, join(process.cwd(), path)), input]),
  );

  const inputs = new Set<string>();
  const externals = new Set<string>();
  const waiting = [...entries];
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    if (inputs.has(path)) continue;
    inputs.add(path);
    for (const found of byName.get(path)?.imports ?? []) {
      // A require stands inside a function, as the fall-back where there is no FFI: it costs nothing until it is called.
      if (found.kind === "dynamic-import" || found.kind === "require-call") continue;
      const target = relative(ROOT, join(process.cwd(), found.path));
      if (byName.has(target)) waiting.push(target);
      else externals.add(found.original ?? found.path);
    }
  }
  return { inputs: [...inputs].sort(), externals: [...externals].sort() };
}
