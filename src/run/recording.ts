/** Where a run's evidence goes while it grows, and how it becomes final. */
import { type ByteText, displayBytes, toByteText } from "../base/bytes.ts";
import { monotonicNs, wallMicroseconds } from "../base/clock.ts";
import { AshError, errorReason, isErrno } from "../base/errors.ts";
import { pathExists } from "../base/files.ts";
import { SCHEMA } from "../evidence/names.ts";
import type { Receipt } from "../evidence/receipt.ts";
import { type Group, groupOf } from "../store/layout.ts";
import type { RootChoice } from "../store/root.ts";
import {
  createRunDirectory,
  createStdinFile,
  keepRoom,
  pointLatest,
  publishChanges,
  publishReceipt,
  type RunDirectory,
  releaseRoom,
  sealFile,
  syncDirectories,
} from "../store/run-directory.ts";
import { makeRunId } from "../store/run-id.ts";
import { Journal } from "./journal.ts";
import type { RunRequest } from "./request.ts";
import { StreamCapture } from "./stream-capture.ts";
import type { TreeChanges } from "./track.ts";

export interface Recording {
  runId: string;
  group: Group;
  /** null: no place could take the run; its output is kept in memory. */
  place: RunDirectory | null;
  /** Why no place could take it. */
  refusal: string | null;
  stdout: StreamCapture;
  stderr: StreamCapture;
  /** Made when stdin is captured. */
  stdin: StreamCapture | null;
  stdinFile: number | null;
  journal: Journal;
  warnings: string[];
}

/** Opens the first place that takes the run. Throws AshError `store_unavailable` only when evidence is required. */
export function openRecording(request: RunRequest, roots: readonly RootChoice[]): Recording {
  const runId = makeRunId(wallMicroseconds(), `${process.pid} ${monotonicNs()}`);
  const group = groupOf(request.argv);
  const refused: string[] = [];
  let reason: string | null = null;
  for (const choice of roots) {
    try {
      const recording = recordingAt(createRunDirectory(choice, group, runId), runId, group);
      if (refused.length > 0)
        recording.warnings.push(`stored elsewhere, since it could not be at ${refused.join(", ")}`);
      return recording;
    } catch (error) {
      reason ??= errorReason(error);
      refused.push(`${displayBytes(choice.root)} (${errorReason(error)})`);
      // Without a free descriptor no other place is better.
      if (isErrno(error, "EMFILE") || isErrno(error, "ENFILE")) break;
    }
  }
  if (request.requireEvidence) {
    throw new AshError("store_unavailable", `no evidence can be kept: ${refused.join(", ")}`, {
      hint: "without --require-evidence the command runs all the same",
    });
  }
  const warnings = [`nothing of this run is stored: ${refused.join(", ")}`];
  return { ...recordingAt(null, runId, group), refusal: reason ?? "no place", warnings };
}

function recordingAt(place: RunDirectory | null, runId: string, group: Group): Recording {
  return {
    runId,
    group,
    place,
    refusal: null,
    stdout: new StreamCapture(place?.stdout ?? null),
    stderr: new StreamCapture(place?.stderr ?? null),
    stdin: null,
    stdinFile: null,
    journal: new Journal(place?.events ?? null),
    warnings: [],
  };
}

/** See to it that a disk that fills up still takes the journal and the receipt. */
export function keepRoomFor({ place }: Recording): void {
  try {
    if (place !== null) keepRoom(place);
  } catch {
    // It is full already: the streams and the journal say so themselves.
  }
}

/** Begins to keep the stdin that is forwarded. */
export function recordStdin(recording: Recording): StreamCapture {
  let file: number | null = null;
  try {
    if (recording.place !== null) file = createStdinFile(recording.place);
  } catch (error) {
    recording.warnings.push(`stdin is not stored: ${errorReason(error)}`);
  }
  recording.stdinFile = file;
  recording.stdin = new StreamCapture(file);
  return recording.stdin;
}

/** Seals the evidence and makes the run final. The run's directory as the completion shows it; null when there is none. */
export function publishRecording(
  recording: Recording,
  receipt: Receipt,
  changes: TreeChanges | null,
  durable: boolean,
): ByteText | null {
  const { place, stdinFile } = recording;
  if (place === null) return null;
  try {
    releaseRoom(place);
    for (const fd of [place.stdout, place.stderr, place.events]) sealFile(fd, durable);
    if (stdinFile !== null) sealFile(stdinFile, durable);
    if (changes !== null)
      publishChanges(place, { schema: SCHEMA.changes, run_id: recording.runId, ...changes }, durable);
    publishReceipt(place, `${JSON.stringify(receipt)}\n`, durable);
    pointLatest(place);
    if (durable) syncDirectories(place);
  } catch (error) {
    receipt.warnings.push(`the receipt could not be stored: ${errorReason(error)}`);
    receipt.storage.complete = false;
    receipt.storage.reason ??= errorReason(error);
    // The command removed its own evidence: nothing is pointed at.
    if (!pathExists(place.path)) {
      receipt.storage.stored = false;
      return null;
    }
  }
  return toByteText(place.path);
}
