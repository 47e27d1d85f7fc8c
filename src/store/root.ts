/**
 * Finds the root of the store that a working directory belongs to: one walk up, no subprocess, no scan, nothing read
 * but directory entries' existence. `/` and the home directory are never chosen and never searched for markers.
 */
import { fileState, listDirectory, pathExists } from "../base/files.ts";
import { join, ROOT_NAME } from "./layout.ts";

export interface RootChoice {
  /** Absolute path of the `.agent-shell` directory (or what `--root` named). */
  root: Buffer;
  /** The directory the store belongs to. */
  place: Buffer;
  reason: "given" | "root-marker" | "vcs" | "project" | "readme-src" | "cwd" | "state-home" | "temporary";
  /** The entry that decided, such as `.git`. */
  marker: string | null;
}

/** What discovery needs of the caller's environment. Paths are bytes. */
export interface RootEnvironment {
  cwd: Uint8Array;
  /** `--root` or ASH_ROOT. */
  given: Uint8Array | null;
  /** $HOME, else the passwd entry; null when unknown. */
  home: Uint8Array | null;
  /** $XDG_STATE_HOME, when absolute. */
  stateHome: Uint8Array | null;
  /** $TMPDIR, else /tmp. */
  temporary: Uint8Array;
  uid: number;
}

const MAX_LEVELS = 64;
const VCS = [".git", ".hg", ".jj", ".svn"];
const PROJECT = [
  ...["package.json", "bun.lock", "pnpm-workspace.yaml", "pyproject.toml", "uv.lock", "setup.py", "requirements.txt"],
  ...["Cargo.toml", "go.mod", "pom.xml", "build.gradle", "build.gradle.kts", "Gemfile", "composer.json", "mix.exs"],
  ...["CMakeLists.txt", "Makefile", "meson.build", "flake.nix", "deno.json"],
];
const PROJECT_SUFFIXES = [".sln", ".csproj"];

/** The places to try for a new run, best first: the project's own root, then the user's state, then temporary files. */
export function rootChoices(environment: RootEnvironment): RootChoice[] {
  if (environment.given !== null) {
    const given = absolute(environment.given, environment.cwd);
    return [{ root: given, place: given, reason: "given", marker: null }, ...fallbacks(environment, given)];
  }
  const choice = discover(environment);
  const chosen = isForbidden(choice.place, environment) ? [] : [choice];
  return [...chosen, ...fallbacks(environment, choice.place)];
}

function discover(environment: RootEnvironment): RootChoice {
  const found = new Map<RootChoice["reason"], { place: Buffer; marker: string }>();
  let place: Buffer = Buffer.from(environment.cwd);
  for (let level = 0; level < MAX_LEVELS; level += 1) {
    if (found.has("vcs")) {
      // Only the explicit marker of an outer directory can still win.
      if (!isForbidden(place, environment) && pathExists(join(place, ".agent-shell-root"))) {
        return choose("root-marker", place, ".agent-shell-root");
      }
    } else if (!isForbidden(place, environment)) {
      const names = entries(place);
      if (names.has(".agent-shell-root")) return choose("root-marker", place, ".agent-shell-root");
      const vcs = VCS.find((name) => names.has(name));
      if (vcs !== undefined) found.set("vcs", { place, marker: vcs });
      if (!found.has("project")) {
        const marker = PROJECT.find((name) => names.has(name)) ?? bySuffix(names);
        if (marker !== undefined) found.set("project", { place, marker });
      }
      if (!found.has("readme-src") && names.has("src") && fileState(join(place, "src"))?.kind === "directory") {
        const readme = [...names].find((name) => name.startsWith("README"));
        if (readme !== undefined) found.set("readme-src", { place, marker: readme });
      }
    }
    const parent = parentOf(place);
    if (parent === null) break;
    place = parent;
  }
  for (const reason of ["vcs", "project", "readme-src"] as const) {
    const match = found.get(reason);
    if (match !== undefined) return choose(reason, match.place, match.marker);
  }
  return choose("cwd", Buffer.from(environment.cwd), null);
}

function choose(reason: RootChoice["reason"], place: Buffer, marker: string | null): RootChoice {
  return { root: join(place, ROOT_NAME), place, reason, marker };
}

function fallbacks(environment: RootEnvironment, place: Uint8Array): RootChoice[] {
  const hash = new Bun.CryptoHasher("sha256").update(place).digest("hex").slice(0, 12);
  const choices: RootChoice[] = [];
  const state = environment.stateHome ?? (environment.home === null ? null : join(environment.home, ".local", "state"));
  if (state !== null) {
    choices.push({
      root: join(state, "agent-shell", hash),
      place: Buffer.from(place),
      reason: "state-home",
      marker: null,
    });
  }
  const temporary = join(environment.temporary, `agent-shell-${environment.uid}`, hash);
  choices.push({ root: temporary, place: Buffer.from(place), reason: "temporary", marker: null });
  return choices;
}

/**
 * Names in a directory that discovery looks for. A directory that cannot be listed (execute-only) is probed name by
 * name; a very large one as well, so that the cost of a walk stays bounded.
 */
function entries(directory: Buffer): Set<string> {
  const size = fileState(directory)?.size ?? Number.POSITIVE_INFINITY;
  const names = size < LARGE_DIRECTORY_BYTES ? listDirectory(directory) : null;
  if (names !== null) return new Set(names);
  const found = new Set<string>();
  for (const name of [".agent-shell-root", ...VCS, ...PROJECT, "README", "README.md", "src"]) {
    if (pathExists(join(directory, name))) found.add(name);
  }
  return found;
}

// About 10,000 short names on ext4, where a directory's size is that of its entries.
const LARGE_DIRECTORY_BYTES = 256 * 1024;

function bySuffix(names: Set<string>): string | undefined {
  for (const name of names) if (PROJECT_SUFFIXES.some((suffix) => name.endsWith(suffix))) return name;
  return undefined;
}

/** `/` and the home directory, by whatever path they are reached. */
function isForbidden(place: Uint8Array, environment: RootEnvironment): boolean {
  if (place.length === 1 && place[0] === 0x2f) return true;
  const { home } = environment;
  if (home === null) return false;
  if (Buffer.compare(home, place) === 0) return true;
  const identity = fileState(home)?.identity;
  return identity !== undefined && identity === fileState(place)?.identity;
}

/** Without slashes at its end. */
export function trimSlashes(path: Uint8Array): Uint8Array {
  let end = path.length;
  while (end > 1 && path[end - 1] === 0x2f) end -= 1;
  return path.subarray(0, end);
}

function parentOf(place: Buffer): Buffer | null {
  const slash = place.lastIndexOf(0x2f);
  if (slash < 0 || place.length === 1) return null;
  return slash === 0 ? Buffer.from("/") : place.subarray(0, slash);
}

/** A path given by the user, made absolute against the cwd, without trailing slashes. */
function absolute(path: Uint8Array, cwd: Uint8Array): Buffer {
  const whole = path[0] === 0x2f ? path : Buffer.concat([cwd, Buffer.from("/"), path]);
  return Buffer.from(trimSlashes(whole));
}
