/** Nothing of ours is ever written over the evidence: an output inside the store is refused before anything is done. */
import { existsSync, realpathSync } from "node:fs";
import { basename, dirname, join, resolve, sep } from "node:path";
import { AshError } from "../base/errors.ts";
import { chosenRoot } from "./open-root.ts";

/** Throws AshError `usage` when `path` lies in the root, by its name or through a symlink. */
export function refuseInsideRoot(path: string, rootOption: string | null): void {
  const root = chosenRoot(rootOption).root.toString("utf8");
  const lexical = resolve(path);
  if (isInside(lexical, resolve(root)) || isInside(physical(lexical), physical(resolve(root)))) {
    throw new AshError("usage", `'${path}' is inside the store`, { hint: "choose a path outside of it" });
  }
}

function isInside(path: string, directory: string): boolean {
  return path === directory || path.startsWith(directory.endsWith(sep) ? directory : directory + sep);
}

/** The path with the symlinks of its existing part resolved. */
function physical(path: string): string {
  if (existsSync(path)) return realpathSync(path);
  const parent = dirname(path);
  return parent === path ? path : join(physical(parent), basename(path));
}
