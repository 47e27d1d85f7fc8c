/** The runs of a root as `ashctl list` answers them. */

import { formatTime } from "../base/clock.ts";
import { AshError } from "../base/errors.ts";
import { FILES } from "../evidence/names.ts";
import type { RunList } from "../evidence/run-list.ts";
import { type FoundRun, listRunDirectories } from "./find-run.ts";
import { fileBytes, readReceipt } from "./read-run.ts";
import { runIdTimeMs, suffixOf } from "./run-id.ts";

export interface ListedRuns {
  items: RunList["items"];
  /** Runs in the root. */
  total: number;
  /** Runs left out because their receipt is damaged, newest first. */
  damaged: string[];
}

/** At most `limit` runs, newest first. */
export function listRuns(root: Buffer, limit: number): ListedRuns {
  const runs = listRunDirectories(root);
  const listed: ListedRuns = { items: [], total: runs.length, damaged: [] };
  for (const run of runs) {
    if (listed.items.length >= limit) break;
    try {
      listed.items.push(describeRun(run));
    } catch (error) {
      if (!(error instanceof AshError)) throw error;
      listed.damaged.push(run.runId);
    }
  }
  return listed;
}

function describeRun(run: FoundRun): RunList["items"][number] {
  const receipt = readReceipt(run);
  const common = { run_id: run.runId, suffix: suffixOf(run.runId), pinned: false, closed: false };
  if (receipt === null) {
    return {
      ...common,
      state: "unfinished",
      exit: null,
      argv: null,
      started_at: formatTime(runIdTimeMs(run.runId) ?? 0),
      wall_ms: null,
      bytes: (fileBytes(run, FILES.stdout) ?? 0) + (fileBytes(run, FILES.stderr) ?? 0),
      labels: {},
    };
  }
  return {
    ...common,
    state: receipt.state,
    exit: receipt.exit,
    argv: receipt.argv,
    started_at: receipt.started_at,
    wall_ms: receipt.wall_ms,
    bytes: receipt.storage.logical_bytes,
    labels: receipt.labels,
  };
}
