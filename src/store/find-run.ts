/** From what a person types (`RUN`) to one run's directory, or a clear error. Never follows a link below the root. */
import { lstatSync, readdirSync } from "node:fs";
import { displayBytes } from "../base/bytes.ts";
import { AshError, errorReason, isErrno } from "../base/errors.ts";
import { artifactsPath, type Group, join } from "./layout.ts";
import { isRunId, suffixOf } from "./run-id.ts";

export interface FoundRun {
  runId: string;
  group: Group;
  path: Buffer;
}

/** All run directories of a root, newest first. Links and foreign names are passed over. */
export function listRunDirectories(root: Buffer): FoundRun[] {
  const runs: FoundRun[] = [];
  const artifacts = artifactsPath(root);
  for (const executable of directoriesIn(artifacts)) {
    for (const invocation of directoriesIn(join(artifacts, executable))) {
      const group = join(artifacts, executable, invocation);
      for (const runId of directoriesIn(group)) {
        if (isRunId(runId)) runs.push({ runId, group: { executable, invocation }, path: join(group, runId) });
      }
    }
  }
  return runs.sort((a, b) => (a.runId < b.runId ? 1 : a.runId > b.runId ? -1 : 0));
}

function directoriesIn(directory: Buffer): string[] {
  try {
    if (!lstatSync(directory).isDirectory()) return [];
    return readdirSync(directory, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => entry.name);
  } catch (error) {
    if (isErrno(error, "ENOENT") || isErrno(error, "ENOTDIR")) return [];
    throw new AshError("store_unavailable", `'${displayBytes(directory)}' cannot be read: ${errorReason(error)}`);
  }
}

/** Finds the one run that `text` names: a full id, a suffix of 8 hex digits, `latest`, or `@N` (N-th newest). */
export function findRun(root: Buffer, text: string): FoundRun {
  const position = text === "latest" ? 1 : /^@[1-9][0-9]{0,8}$/.test(text) ? Number(text.slice(1)) : null;
  const isSuffix = /^[0-9a-f]{8}$/.test(text);
  if (position === null && !isSuffix && !isRunId(text)) {
    throw new AshError("usage", `'${text}' is not a run`, {
      hint: "give a run id, the 8 hex digits at its end, latest, or @N for the N-th newest",
    });
  }
  const runs = listRunDirectories(root);
  if (position !== null) {
    const run = runs[position - 1];
    if (run !== undefined) return run;
    throw new AshError("run_not_found", `there is no run ${text}: the root holds ${runs.length}`, {
      hint: "see: ashctl list",
    });
  }
  const matches = runs.filter((run) => (isSuffix ? suffixOf(run.runId) === text : run.runId === text));
  if (matches.length > 1) {
    throw new AshError("run_ambiguous", `'${text}' names ${matches.length} runs`, {
      hint: `give one of: ${matches.map((run) => run.runId).join(" ")}`,
    });
  }
  const run = matches[0];
  if (run === undefined)
    throw new AshError("run_not_found", `there is no run '${text}' in this root`, { hint: "see: ashctl list" });
  return run;
}
