/** From what was observed to the receipt and the completion. Pure. */
import { type ByteText, toByteText } from "../base/bytes.ts";
import type { Completion } from "../evidence/completion.ts";
import { SCHEMA } from "../evidence/names.ts";
import type { Previous, Receipt, Storage } from "../evidence/receipt.ts";
import { suffixOf } from "../store/run-id.ts";

/** The previous run's facts as this one's receipt tells them; null when its receipt is not usable. */
export function comparePrevious(
  previousId: string | null,
  text: string | null,
  startedMs: number,
  streams: Receipt["streams"],
): Previous | null {
  if (previousId === null || text === null) return null;
  try {
    const receipt = JSON.parse(text) as Receipt;
    if (receipt.schema !== SCHEMA.receipt || receipt.run_id !== previousId) return null;
    const { kind, code, signal } = receipt.exit;
    const same = (name: "stdout" | "stderr") => ({ same: receipt.streams[name]?.sha256 === streams[name]?.sha256 });
    return {
      run_id: previousId,
      age_ms: Math.max(0, startedMs - Date.parse(receipt.ended_at)),
      exit: { kind, code, signal },
      streams: { stdout: same("stdout"), stderr: same("stderr") },
    };
  } catch {
    // A damaged receipt is for verify to report; the run that meets it only has no predecessor to name.
    return null;
  }
}

export function storageOf(
  streams: Receipt["streams"],
  lostBytes: number,
  failures: readonly (string | null)[],
): Storage {
  const logical = (streams.stdin?.bytes ?? 0) + (streams.stdout?.bytes ?? 0) + (streams.stderr?.bytes ?? 0);
  let reason: string | null = null;
  for (const name of ["stdout", "stderr"] as const) {
    if (streams[name]?.complete === false) reason ??= `${name}-${streams[name]?.ended}`;
  }
  for (const failure of failures) reason = failure ?? reason;
  return {
    logical_bytes: logical,
    new_bytes: logical,
    reused_bytes: 0,
    complete: reason === null,
    reason,
    lost_bytes: lostBytes,
    dedup: "unavailable",
    dedup_reason: "each run keeps its own files",
  };
}

/** The completion of a run whose receipt this is. */
export function completionOf(
  receipt: Receipt,
  quickview: Completion["quickview"],
  artifacts: ByteText | null,
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
    artifacts,
    quickview,
    diagnostics: null,
    previous: receipt.previous,
    next: quickview === null && output > 0 ? ["ashctl", "show", suffix, "merged"] : null,
    warnings: receipt.warnings,
  };
}

export function argvText(argv: readonly Uint8Array[]): ByteText[] {
  return argv.map(toByteText);
}
