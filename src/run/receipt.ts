/** The receipt of a run that has ended. */
import { toByteText } from "../base/bytes.ts";
import { formatTime } from "../base/clock.ts";
import { formatBytes } from "../base/units.ts";
import { SCHEMA } from "../evidence/names.ts";
import type { Receipt, StreamRecord } from "../evidence/receipt.ts";
import { mountPointOf } from "../store/mount-point.ts";
import { readPreviousReceipt } from "../store/run-directory.ts";
import { comparePrevious, type PreviousRun, parsePrevious, storageOf } from "./finish.ts";
import { readHostState } from "./host-state.ts";
import type { Launcher } from "./launcher.ts";
import { cpuOf, processPeak } from "./measure.ts";
import type { Observation } from "./observe.ts";
import type { Recording } from "./recording.ts";
import type { RunRequest } from "./request.ts";
import type { RunContext } from "./run.ts";
import type { StreamCapture } from "./stream-capture.ts";
import type { TreeChanges } from "./track.ts";

/** What does not depend on the child's end. */
export interface Surroundings {
  /** Read before the start: a child moves the offset of a file. */
  stdin: Receipt["stdin"];
  /** Read beside the running child. */
  previous: PreviousRun | null;
  /** null: nothing was tracked. */
  changes: TreeChanges | null;
}

export function readPrevious({ place }: Recording): PreviousRun | null {
  return place === null ? null : parsePrevious(place.previousId, readPreviousReceipt(place));
}

/** Ends the journal, reads the host once more and gathers what was observed. */
export function buildReceipt(
  request: RunRequest,
  surroundings: Surroundings,
  context: RunContext,
  recording: Recording,
  observation: Observation,
): Receipt {
  const { ending, exit, sampler } = observation;
  const { journal, place } = recording;
  const wallMs = Math.round(observation.wallNs / 1e3) / 1e3;
  journal.append({ type: "run_finalized", elapsed_ns: observation.elapsedNs(), state: ending.state });
  journal.flush();
  warnOfLoss(recording);
  const streams = streamsOf(recording, observation, request.pty);
  const cpu = observation.cpuMs;
  const { failure } = ending;
  return {
    schema: SCHEMA.receipt,
    run_id: recording.runId,
    state: ending.state,
    exit: exit?.exit ?? { kind: "none", code: null, signal: null },
    wall_ms: wallMs,
    started_at: formatTime(observation.startedMs),
    ended_at: formatTime(observation.endedMs),
    argv: request.argv.map(toByteText),
    cwd: toByteText(request.cwd ?? context.cwd),
    root: place === null ? null : toByteText(place.root),
    group: `${recording.group.executable}/${recording.group.invocation}`,
    pid: observation.pid,
    failure: failure === null ? null : { errno: failure.errno, message: failure.message, exit_code: failure.exitCode },
    cpu: cpu === null ? null : cpuOf(cpu.userMs, cpu.systemMs, wallMs, observation.cpuPartial),
    rss:
      exit === null
        ? null
        : {
            process_bytes: processPeak(
              exit.maxRssBytes,
              observation.floorBytes,
              sampler.processPeakBytes,
              context.launcher.control.peakSource,
            ),
            tree_bytes: sampler.treeMeasure(),
          },
    host: { before: observation.before, after: readHostState() },
    streams,
    stdin: surroundings.stdin,
    limits: {
      timeout_ms: request.limits.timeoutMs,
      kill_after_ms: request.limits.killAfterMs,
      linger_ms: request.limits.lingerMs,
      max_output_bytes: request.limits.maxOutputBytes,
      max_stdin_bytes: request.limits.maxStdinBytes,
      sample_ms: request.sampleMs,
    },
    storage: storageOf(streams, recording),
    changes: changesOf(surroundings.changes),
    environment: recordedEnvironment(request, context.launcher),
    labels: { ...request.labels },
    terminated: observation.stopper.record(),
    previous: comparePrevious(surroundings.previous, observation.startedMs, streams),
    batch: null,
    broker: {
      version: context.version,
      platform: `${process.platform}-${process.arch}`,
      bun_version: Bun.version,
      launcher: context.launcher.name,
    },
    warnings: recording.warnings,
  };
}

function changesOf(changes: TreeChanges | null): Receipt["changes"] {
  if (changes === null) return { observed: false };
  const { paths, complete, reason, counts } = changes;
  return { observed: true, paths: paths.map(({ path }) => path), complete, reason, ...counts };
}

/** Names the file system that took no more of the run. */
function warnOfLoss({ place, stdin, stdout, stderr, journal, warnings }: Recording): void {
  const reason = stdout.failure ?? stderr.failure ?? stdin?.failure ?? journal.failure;
  if (place === null || reason === null || reason === undefined) return;
  const lost = stdout.lostBytes + stderr.lostBytes + (stdin?.lostBytes ?? 0);
  warnings.push(
    `the file system ${mountPointOf(place.path)} took no more (${reason}): ${formatBytes(lost)} are not stored`,
  );
}

/** Only what was asked for by name, as the child has it. */
function recordedEnvironment({ recordEnv, environment }: RunRequest, launcher: Launcher): Receipt["environment"] {
  if (recordEnv.length === 0) return null;
  const values: NonNullable<Receipt["environment"]> = {};
  for (const name of recordEnv) {
    const unset = environment?.unset.has(name) === true;
    const value = unset ? null : (environment?.set.get(name) ?? launcher.readVariable(name));
    values[name] = value === null ? null : toByteText(value);
  }
  return values;
}

function streamsOf(
  { stdin, stdout, stderr }: Recording,
  { heldOpen }: Observation,
  terminal: boolean,
): Receipt["streams"] {
  const output = (stream: "stdout" | "stderr", capture: StreamCapture): StreamRecord => ({
    ...capture.record(),
    terminal,
    held_by: heldOpen.find((holder) => holder.stream === stream)?.pids ?? null,
  });
  return {
    stdin: stdin === null ? null : { ...stdin.record(), terminal: false, held_by: null },
    stdout: output("stdout", stdout),
    stderr: terminal ? null : output("stderr", stderr),
  };
}
