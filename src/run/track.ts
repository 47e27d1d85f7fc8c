/**
 * What changed in the files under the tracked paths around a run. Loaded only when something is tracked. An observation
 * is bounded in files and in time; what it could not see makes it incomplete, and is never reported as a change.
 */
import { displayBytes, toByteText } from "../base/bytes.ts";
import { formatTime } from "../base/clock.ts";
import type { Change, ChangesFile, FileState, TreeObservation } from "../evidence/changes.ts";
import { entryKey, parentPath, SELF, type TrackOptions, type TreeEntry, type TreeSnapshot } from "./tree-snapshot.ts";
import { TreeWalk } from "./tree-walk.ts";

/** All of changes.json but what names the run. */
export type TreeChanges = Omit<ChangesFile, "schema" | "run_id">;

/**
 * Observes what is under `paths`. A directory that is reached by two of them belongs to the first. With `before`,
 * everything that was there then is looked for again, ignored or not by now.
 */
export function observeTree(paths: readonly Uint8Array[], options: TrackOptions): TreeSnapshot {
  return new TreeWalk(paths, options).run();
}

/** Compares two observations of the same paths; `after` was made with `before`. */
export function compareTrees(before: TreeSnapshot, after: TreeSnapshot): TreeChanges {
  const found: { entry: TreeEntry; change: Change }[] = [];
  for (const [key, entry] of before.entries) {
    const place = { root: entry.root, path: toByteText(Buffer.from(entry.path, "latin1")) };
    const now = after.entries.get(key);
    if (now === undefined) {
      if (after.unknown.has(key)) continue;
      found.push({ entry, change: { kind: "removed", ...place, before: stateOf(entry), after: null } });
    } else if (differs(entry, now)) {
      found.push({ entry, change: { kind: "modified", ...place, before: stateOf(entry), after: stateOf(now) } });
    }
  }
  for (const [key, entry] of after.entries) {
    if (before.entries.has(key) || !wasAbsent(before, entry)) continue;
    const place = { root: entry.root, path: toByteText(Buffer.from(entry.path, "latin1")) };
    found.push({ entry, change: { kind: "added", ...place, before: null, after: stateOf(entry) } });
  }
  found.sort((a, b) => a.entry.root - b.entry.root || (a.entry.path < b.entry.path ? -1 : 1));
  const items = found.map(({ change }) => change);
  const count = (kind: Change["kind"]): number => items.filter((item) => item.kind === kind).length;
  const reasons = [...reasonsOf("before", before), ...reasonsOf("after", after)];
  return {
    paths: before.paths.map((path, root) => ({
      path: toByteText(path),
      before: before.kinds[root]!,
      after: after.kinds[root]!,
    })),
    limits: { files: after.limits.files, ms: after.limits.ms, hash_bytes: after.limits.hashBytes },
    complete: reasons.length === 0,
    reason: reasons.length === 0 ? null : reasons.join("; "),
    before: observationOf(before),
    after: observationOf(after),
    counts: { added: count("added"), removed: count("removed"), modified: count("modified") },
    items,
  };
}

/** A new time alone is no change where the content was compared. */
function differs(before: TreeEntry, after: TreeEntry): boolean {
  if (before.type !== after.type || before.mode !== after.mode) return true;
  if (before.type === "fifo" || before.type === "socket" || before.type === "device") return false;
  if (before.size !== after.size) return true;
  if (before.sha256 !== null && after.sha256 !== null) return before.sha256 !== after.sha256;
  return before.mtimeNs !== after.mtimeNs;
}

/** Tells whether an entry that was not observed was not there, rather than out of sight. */
function wasAbsent({ kinds, directories }: TreeSnapshot, { root, path }: TreeEntry): boolean {
  const kind = kinds[root];
  if (path === SELF) return kind === "missing" || kind === "directory";
  if (kind !== "directory") return kind !== "unknown";
  for (let directory = parentPath(path); ; directory = parentPath(directory)) {
    const record = directories.get(entryKey(root, directory));
    if (record !== undefined) return record.isListed;
    if (directory === SELF) return false;
  }
}

function stateOf({ type, size, mtimeNs, mode, sha256 }: TreeEntry): FileState {
  return { type, size, mtime: formatTimeNs(mtimeNs), mode: mode.toString(8).padStart(4, "0"), sha256 };
}

const SECOND_NS = 1_000_000_000n;
const FIRST_SECOND = BigInt(Date.parse("0000-01-01T00:00:00Z") / 1000);
const LAST_SECOND = BigInt(Date.parse("9999-12-31T23:59:59Z") / 1000);

/** RFC 3339 with nanoseconds; null where it has no such year. */
function formatTimeNs(timeNs: bigint): string | null {
  const fraction = ((timeNs % SECOND_NS) + SECOND_NS) % SECOND_NS;
  const seconds = (timeNs - fraction) / SECOND_NS;
  if (seconds < FIRST_SECOND || seconds > LAST_SECOND) return null;
  return `${formatTime(Number(seconds) * 1000).slice(0, -".000Z".length)}.${fraction.toString().padStart(9, "0")}Z`;
}

function observationOf(snapshot: TreeSnapshot): TreeObservation {
  return {
    at: formatTime(snapshot.startedMs),
    duration_ms: Math.round(snapshot.durationNs / 1e3) / 1e3,
    files: snapshot.entries.size,
    ignored: snapshot.ignored,
    complete: isComplete(snapshot),
    bounds: [...snapshot.bounds],
    problem_count: snapshot.problemCount,
    problems: snapshot.problems.map(({ root, path, reason }) => ({
      root,
      path: toByteText(Buffer.from(path, "latin1")),
      reason,
    })),
  };
}

function isComplete({ bounds, problemCount }: TreeSnapshot): boolean {
  return bounds.length === 0 && problemCount === 0;
}

function reasonsOf(when: "before" | "after", { bounds, limits, problems, problemCount }: TreeSnapshot): string[] {
  const reasons = bounds.map((bound) =>
    bound === "files" ? `${when}: more than ${limits.files} files` : `${when}: longer than ${limits.ms} ms`,
  );
  const first = problems[0];
  if (first === undefined) return reasons;
  const others = problemCount === 1 ? "" : `, and ${problemCount - 1} more`;
  return [...reasons, `${when}: ${displayBytes(Buffer.from(first.path, "latin1"))}: ${first.reason}${others}`];
}
