/**
 * The life of a run, in order. Whatever goes wrong with the evidence, the child runs, finishes, and its result reaches
 * the caller; what is missing is said to be missing.
 */
import { type ByteText, toByteText } from "../base/bytes.ts";
import { formatTime, monotonicNs, wallMicroseconds, wallMs } from "../base/clock.ts";
import { AshError, errorReason } from "../base/errors.ts";
import { EXIT_BROKER } from "../base/exit-codes.ts";
import { signalNumber } from "../base/signals.ts";
import type { Announcement } from "../evidence/announcement.ts";
import type { Completion } from "../evidence/completion.ts";
import { SCHEMA } from "../evidence/names.ts";
import type { HostState, Receipt } from "../evidence/receipt.ts";
import { groupOf } from "../store/layout.ts";
import type { RootChoice } from "../store/root.ts";
import {
  createRunDirectory,
  pointLatest,
  publishReceipt,
  type RunDirectory,
  readPreviousReceipt,
  sealFile,
} from "../store/run-directory.ts";
import { makeRunId, suffixOf } from "../store/run-id.ts";
import { argvText, comparePrevious, completionOf, storageOf } from "./finish.ts";
import { readHostState } from "./host-state.ts";
import { FLUSH_MS, Journal } from "./journal.ts";
import type { Child, ExitStatus, Launcher, LaunchRequest, OutputStream } from "./launcher.ts";
import { cpuOf, processPeak } from "./measure.ts";
import { ownChildren, readMemory } from "./process-tree.ts";
import { explainStartFailure, type StartFailure } from "./program-lookup.ts";
import { makeQuickview } from "./quickview.ts";
import type { RunRequest } from "./request.ts";
import { Sampler } from "./sampler.ts";
import { describeStdin } from "./stdin-kind.ts";
import { StreamCapture } from "./stream-capture.ts";

/** What a run needs of the process it lives in. */
export interface RunContext {
  launcher: Launcher;
  /** Where the run may be recorded, best first. */
  roots: readonly RootChoice[];
  /** The caller's working directory. */
  cwd: Uint8Array;
  searchPath: string | null;
  version: string;
  /** Called right after the child has started. */
  announce?: (announcement: Announcement) => void;
}

export interface RunResult {
  completion: Completion;
  /** What the broker exits with. */
  exitCode: number;
}

export async function runCommand(request: RunRequest, context: RunContext): Promise<RunResult> {
  const recording = openRecording(request, context);
  const observed = await observe(request, context, recording);
  const receipt = buildReceipt(request, context, recording, observed);
  const quickview = request.quickview
    ? makeQuickview(recording.stdout, recording.stderr, recording.journal.kept)
    : null;
  const completion = completionOf(receipt, quickview, publish(recording, receipt));
  return { completion, exitCode: exitCodeOf(receipt, observed.failure) };
}

/** Where a run's evidence goes while it grows. */
interface Recording {
  runId: string;
  place: RunDirectory;
  stdout: StreamCapture;
  stderr: StreamCapture;
  journal: Journal;
  warnings: string[];
}

function openRecording(request: RunRequest, context: RunContext): Recording {
  const runId = makeRunId(wallMicroseconds(), `${process.pid} ${monotonicNs()}`);
  const group = groupOf(request.argv);
  const refused: string[] = [];
  for (const choice of context.roots) {
    try {
      const place = createRunDirectory(choice, group, runId);
      return {
        runId,
        place,
        stdout: new StreamCapture(place.stdout),
        stderr: new StreamCapture(place.stderr),
        journal: new Journal(place.events),
        warnings: refused.map((reason) => `the store could not be used: ${reason}`),
      };
    } catch (error) {
      refused.push(`${choice.root.toString()}: ${errorReason(error)}`);
    }
  }
  throw new AshError("store_unavailable", `no run can be recorded: ${refused.join("; ")}`);
}

/** What was seen from the child's start to the end of its streams. */
interface Observed {
  pid: number | null;
  failure: StartFailure | null;
  exit: ExitStatus | null;
  startedMs: number;
  endedMs: number;
  wallNs: number;
  endNs: number;
  floorBytes: number | null;
  cpuPartial: boolean;
  before: HostState | null;
  sampler: Sampler;
}

async function observe(request: RunRequest, context: RunContext, recording: Recording): Promise<Observed> {
  const { launcher } = context;
  const { loop } = launcher;
  const { journal } = recording;
  const open = new Set<OutputStream>(
    (["stdout", "stderr"] as const).filter((_, i) => !launcher.closed.includes(i + 1)),
  );
  for (const stream of ["stdout", "stderr"] as const) if (!open.has(stream)) recording[stream].ended = "closed";

  const startNs = monotonicNs();
  const elapsed = () => monotonicNs() - startNs;
  const observed: Observed = {
    pid: null,
    failure: null,
    exit: null,
    startedMs: wallMs(),
    endedMs: 0,
    wallNs: 0,
    endNs: 0,
    floorBytes: null,
    cpuPartial: false,
    before: null,
    sampler: new Sampler(loop, request.sampleMs, (sample) =>
      journal.append({
        type: "sample",
        elapsed_ns: elapsed(),
        ...sample,
        stdout_bytes: recording.stdout.bytes,
        stderr_bytes: recording.stderr.bytes,
      }),
    ),
  };
  const end = (stream: OutputStream, reason: "eof" | "error" | "held_open") => {
    open.delete(stream);
    recording[stream].ended = reason;
    journal.append({ type: "stream_end", elapsed_ns: elapsed(), stream, reason, bytes: recording[stream].bytes });
  };
  let lingered = false;
  let child: Child | null = null;
  const launch: LaunchRequest = { ...request, searchPath: context.searchPath };
  const started = launcher.start(launch, {
    chunk(stream, bytes) {
      const capture = recording[stream];
      const offset = capture.bytes;
      const stored = capture.write(bytes);
      if (stored > 0) journal.chunk(stream, offset, stored, elapsed());
      if (stored < bytes.length && offset + stored === capture.bytes && capture.lostBytes === bytes.length - stored) {
        journal.append({ type: "storage_error", elapsed_ns: elapsed(), stream, reason: capture.failure ?? "EIO" });
      }
    },
    end: (stream, error) => end(stream, error === null ? "eof" : "error"),
    exit(status) {
      observed.exit = status;
      observed.wallNs = elapsed();
      observed.endedMs = wallMs();
      observed.sampler.stop();
      const { kind, code, signal } = status.exit;
      journal.append({
        type: "child_exited",
        elapsed_ns: observed.wallNs,
        kind: kind === "signal" ? kind : "code",
        code,
        signal,
      });
      loop.after(request.lingerMs, () => {
        for (const stream of open) child?.drain(stream);
        lingered = true;
      });
    },
  });
  const pid = started.kind === "started" ? started.child.pid : null;
  journal.append({
    type: "run_started",
    elapsed_ns: 0,
    pid,
    argv_sha256: argvDigest(request.argv),
    at: formatTime(observed.startedMs),
  });
  observed.before = readHostState();
  if (started.kind === "failed") {
    observed.failure = explainStartFailure(launch, started.errno);
    observed.endedMs = observed.startedMs;
    for (const stream of open) end(stream, "eof");
  } else {
    child = started.child;
    observed.pid = child.pid;
    observed.floorBytes = readMemory("self")?.peakBytes ?? null;
    if (context.announce !== undefined) announce(context.announce, recording, child.pid, observed.startedMs);
    observed.sampler.start();
    let flushing = false;
    while (observed.exit === null || (open.size > 0 && !lingered)) {
      if (journal.hasUnwritten && !flushing) {
        flushing = true;
        loop.after(FLUSH_MS, () => {
          flushing = false;
          journal.flush();
        });
      }
      await loop.turn();
    }
    observed.cpuPartial = ownChildren().length > 0;
    for (const stream of open) {
      child.release(stream);
      end(stream, "held_open");
    }
  }
  observed.endNs = elapsed();
  return observed;
}

function announce(
  print: (announcement: Announcement) => void,
  recording: Recording,
  pid: number,
  startedMs: number,
): void {
  recording.journal.flush();
  print({
    schema: SCHEMA.announcement,
    run_id: recording.runId,
    suffix: suffixOf(recording.runId),
    pid,
    run_dir: toByteText(recording.place.path),
    started_at: formatTime(startedMs),
  });
}

function buildReceipt(request: RunRequest, context: RunContext, recording: Recording, observed: Observed): Receipt {
  const { failure, exit, sampler } = observed;
  const { journal, place } = recording;
  const wallMilliseconds = Math.round(observed.wallNs / 1e3) / 1e3;
  const state = failure === null ? "completed" : "failed_to_start";
  journal.append({ type: "run_finalized", elapsed_ns: observed.endNs, state });
  journal.flush();
  const streams = { stdin: null, stdout: recording.stdout.record(), stderr: recording.stderr.record() };
  return {
    schema: SCHEMA.receipt,
    run_id: recording.runId,
    state,
    exit: exit?.exit ?? { kind: "none", code: null, signal: null },
    wall_ms: wallMilliseconds,
    started_at: formatTime(observed.startedMs),
    ended_at: formatTime(observed.endedMs),
    argv: argvText(request.argv),
    cwd: toByteText(request.cwd ?? context.cwd),
    root: toByteText(place.root),
    group: `${place.group.executable}/${place.group.invocation}`,
    pid: observed.pid,
    failure: failure === null ? null : { errno: failure.errno, message: failure.message },
    cpu: exit === null ? null : cpuOf(exit.userMs, exit.systemMs, wallMilliseconds, observed.cpuPartial),
    rss:
      exit === null
        ? null
        : {
            process_bytes: processPeak(exit.maxRssBytes, observed.floorBytes, sampler.processPeakBytes),
            tree_bytes: sampler.treeMeasure(),
          },
    host: { before: observed.before, after: readHostState() },
    streams,
    stdin: describeStdin(context.launcher.closed.includes(0)),
    limits: { sample_ms: request.sampleMs, linger_ms: request.lingerMs },
    storage: storageOf(streams, recording.stdout.lostBytes + recording.stderr.lostBytes, [
      recording.stdout.failure,
      recording.stderr.failure,
      journal.failure,
    ]),
    changes: { observed: false },
    environment: null,
    labels: { ...request.labels },
    terminated: null,
    previous: comparePrevious(place.previousId, readPreviousReceipt(place), observed.startedMs, streams),
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

/** Seals the evidence and makes the run final. Returns the run's directory, as the completion shows it. */
function publish(recording: Recording, receipt: Receipt): ByteText {
  const { place } = recording;
  try {
    for (const fd of [place.stdout, place.stderr, place.events]) sealFile(fd);
    publishReceipt(place, `${JSON.stringify(receipt)}\n`);
    pointLatest(place);
  } catch (error) {
    receipt.warnings.push(`the receipt could not be stored: ${errorReason(error)}`);
    receipt.storage.complete = false;
    receipt.storage.reason ??= errorReason(error);
  }
  return toByteText(place.path);
}

function exitCodeOf(receipt: Receipt, failure: StartFailure | null): number {
  if (failure !== null) return failure.exitCode;
  const { kind, code, signal } = receipt.exit;
  if (kind === "code" && code !== null) return code;
  return kind === "signal" && signal !== null ? 128 + (signalNumber(signal) ?? 0) : EXIT_BROKER;
}

/** SHA-256 over the NUL-terminated arguments. */
function argvDigest(argv: readonly Uint8Array[]): string {
  const hash = new Bun.CryptoHasher("sha256");
  const nul = new Uint8Array(1);
  for (const argument of argv) hash.update(argument).update(nul);
  return hash.digest("hex");
}
