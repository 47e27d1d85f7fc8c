/** From what was observed to the receipt and the completion. Pure. */
import type { ByteText } from "../base/bytes.ts";
import type { Completion } from "../evidence/completion.ts";
import { EXIT_KINDS, SCHEMA } from "../evidence/names.ts";
import type { Exit, Previous, Receipt, Storage } from "../evidence/receipt.ts";
import { suffixOf } from "../store/run-id.ts";
import type { Recording } from "./recording.ts";

/** What a run needs to know of the one before it. */
export interface PreviousRun {
  runId: string;
  endedMs: number;
  exit: Exit;
  sha256: { stdout: string | undefined; stderr: string | undefined };
}

/** Reads the receipt of the run before; null when it is not usable. */
export function parsePrevious(runId: string | null, text: string | null): PreviousRun | null {
  if (runId === null || text === null) return null;
  try {
    const { schema, run_id, ended_at, exit, streams } = JSON.parse(text) as Receipt;
    const endedMs = Date.parse(ended_at);
    if (schema !== SCHEMA.receipt || run_id !== runId || Number.isNaN(endedMs)) return null;
    const { kind, code, signal } = exit;
    if (!EXIT_KINDS.includes(kind)) return null;
    const sha256 = { stdout: streams.stdout?.sha256, stderr: streams.stderr?.sha256 };
    return { runId, endedMs, exit: { kind, code, signal }, sha256 };
  } catch {
    // A damaged receipt is for verify to report; the run that meets it only has no predecessor to name.
    return null;
  }
}

/** The previous run's facts as this one's receipt tells them. */
export function comparePrevious(
  previous: PreviousRun | null,
  startedMs: number,
  streams: Receipt["streams"],
): Previous | null {
  if (previous === null) return null;
  const same = (name: "stdout" | "stderr") => ({ same: previous.sha256[name] === streams[name]?.sha256 });
  return {
    run_id: previous.runId,
    age_ms: Math.max(0, startedMs - previous.endedMs),
    exit: previous.exit,
    streams: { stdout: same("stdout"), stderr: same("stderr") },
  };
}

/** What was stored of the streams, and why not all of it where it was not. */
export function storageOf(
  streams: Receipt["streams"],
  recording: Pick<Recording, "refusal" | "stdout" | "stderr" | "stdin" | "journal">,
): Storage {
  const logical = (streams.stdin?.bytes ?? 0) + (streams.stdout?.bytes ?? 0) + (streams.stderr?.bytes ?? 0);
  const { refusal, stdin, stdout, stderr, journal } = recording;
  let reason = refusal ?? stdout.failure ?? stderr.failure ?? stdin?.failure ?? journal.failure;
  for (const name of ["stdin", "stdout", "stderr"] as const) {
    if (streams[name]?.complete === false) reason ??= `${name}-${streams[name]?.ended}`;
  }
  return {
    logical_bytes: logical,
    new_bytes: logical,
    reused_bytes: 0,
    complete: reason === null,
    reason,
    lost_bytes: stdout.lostBytes + stderr.lostBytes + (stdin?.lostBytes ?? 0),
    stored: refusal === null,
    dedup: "unavailable",
    dedup_reason: "each run keeps its own files",
  };
}

/** The completion of a run whose receipt this is; `root` when a later question has to name it. */
export function completionOf(
  receipt: Receipt,
  quickview: Completion["quickview"],
  inline: Completion["inline"],
  artifacts: ByteText | null,
  root: string | null,
): Completion {
  const suffix = suffixOf(receipt.run_id);
  const output = (receipt.streams.stdout?.bytes ?? 0) + (receipt.streams.stderr?.bytes ?? 0);
  return {
    schema: SCHEMA.completion,
    run_id: receipt.run_id,
    suffix,
    state: receipt.state,
    exit: receipt.exit,
    failure: receipt.failure,
    wall_ms: receipt.wall_ms,
    started_at: receipt.started_at,
    ended_at: receipt.ended_at,
    cpu: receipt.cpu,
    rss: receipt.rss,
    host: receipt.host,
    streams: receipt.streams,
    storage: receipt.storage,
    changes: receipt.changes,
    terminated: receipt.terminated,
    artifacts,
    quickview,
    inline,
    diagnostics: null,
    previous: receipt.previous,
    next: quickview === null && output > 0 && artifacts !== null ? showCommand(suffix, root) : null,
    warnings: receipt.warnings,
  };
}

function showCommand(suffix: string, root: string | null): string[] {
  return ["ashctl", ...(root === null ? [] : ["--root", root]), "show", suffix, "merged"];
}
