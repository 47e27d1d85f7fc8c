/** Reads what a run's directory holds. Nothing is followed, nothing is written. */
import { AshError } from "../base/errors.ts";
import { linkState, readWhole } from "../base/files.ts";
import { FILES, SCHEMA } from "../evidence/names.ts";
import type { Receipt } from "../evidence/receipt.ts";
import type { FoundRun } from "./find-run.ts";
import { join } from "./layout.ts";

/** The receipt of a finalized run; null when there is none yet. Throws AshError `evidence_corrupt` when it is not this run's. */
export function readReceipt(run: FoundRun): Receipt | null {
  const path = join(run.path, FILES.receipt);
  if (linkState(path) === null) return null;
  const bytes = readWhole(path);
  const corrupt = (why: string) => new AshError("evidence_corrupt", `the receipt of ${run.runId} ${why}`);
  if (bytes === null) throw corrupt("cannot be read");
  let receipt: Receipt | null;
  try {
    receipt = JSON.parse(bytes.toString("utf8")) as Receipt | null;
  } catch {
    throw corrupt("is not JSON");
  }
  if (receipt?.schema !== SCHEMA.receipt) throw corrupt(`is not of the format ${SCHEMA.receipt}`);
  if (receipt.run_id !== run.runId) throw corrupt("names another run");
  return receipt;
}

/** Bytes of one of the run's files; null when it is missing or no plain file. */
export function fileBytes(run: FoundRun, name: string): number | null {
  const state = linkState(join(run.path, name));
  return state?.kind === "file" ? state.size : null;
}
