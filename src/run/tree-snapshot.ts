/** What one look at the tracked paths has seen. Paths inside are byte strings, one character a byte (latin1). */
import type { FileState, TrackedKind } from "../evidence/changes.ts";

export interface TrackLimits {
  files: number;
  ms: number;
  /** The content of larger files is not read. */
  hashBytes: number;
}

export const TRACK_LIMITS: TrackLimits = { files: 20_000, ms: 2000, hashBytes: 16 * 2 ** 20 };

export interface TrackOptions {
  /** What relative paths start from; absolute. */
  cwd: Uint8Array;
  /** Stores of ours, left out whatever they are called. */
  stores: readonly Uint8Array[];
  /** The observation before the run, when this is the one after it. */
  before?: TreeSnapshot;
  limits?: TrackLimits;
  nowNs?: () => number;
}

export interface TreeEntry {
  root: number;
  path: string;
  type: FileState["type"];
  size: number;
  mtimeNs: bigint;
  mode: number;
  sha256: string | null;
}

export interface DirectoryRecord {
  /** The text of its .gitignore. */
  rules: string | null;
  /** All its entries were looked at: what is not among them was not there. */
  isListed: boolean;
}

export interface TreeProblem {
  root: number;
  path: string;
  reason: string;
}

export interface TreeSnapshot {
  /** Absolute. */
  paths: readonly Buffer[];
  limits: TrackLimits;
  startedMs: number;
  durationNs: number;
  kinds: TrackedKind[];
  /** By `entryKey`. */
  entries: Map<string, TreeEntry>;
  /** Every directory that was entered, by `entryKey`. */
  directories: Map<string, DirectoryRecord>;
  /** Entries of the observation before that could not be looked for again. */
  unknown: Set<string>;
  bounds: ("files" | "time")[];
  ignored: number;
  /** The first of them. */
  problems: TreeProblem[];
  problemCount: number;
}

/** The path of a tracked path within itself. */
export const SELF = ".";

export function entryKey(root: number, path: string): string {
  return `${root}:${path}`;
}

/** The directory of an entry, within the tracked path. */
export function parentPath(path: string): string {
  const slash = path.lastIndexOf("/");
  return slash < 0 ? SELF : path.slice(0, slash);
}
