/**
 * The life of a run, in order. Whatever goes wrong with the evidence, the child runs, finishes, and its result reaches
 * the caller; what is missing is said to be missing.
 */
import { decodeEscaped, toByteText } from "../base/bytes.ts";
import { formatTime } from "../base/clock.ts";
import type { Announcement } from "../evidence/announcement.ts";
import type { Completion } from "../evidence/completion.ts";
import { SCHEMA } from "../evidence/names.ts";
import type { RootChoice } from "../store/root.ts";
import { suffixOf } from "../store/run-id.ts";
import { completionOf } from "./finish.ts";
import type { Launcher, StdinPlan } from "./launcher.ts";
import { Observation } from "./observe.ts";
import { makeInline, makeQuickview } from "./quickview.ts";
import { buildReceipt, readPrevious } from "./receipt.ts";
import { openRecording, publishRecording, type Recording } from "./recording.ts";
import type { RunRequest } from "./request.ts";
import { describeStdin } from "./stdin-kind.ts";
import type { TreeChanges } from "./track.ts";

/** What a run needs of the process it lives in. */
export interface RunContext {
  launcher: Launcher;
  /** Where the run may be recorded, best first. */
  roots: readonly RootChoice[];
  /** The first of them is found by every later question from the same place without being named. */
  firstRootIsFound: boolean;
  /** The caller's working directory. */
  cwd: Uint8Array;
  searchPath: string | null;
  version: string;
  /** Called right after the child has started, when it is recorded. */
  announce?: (announcement: Announcement) => void;
}

export interface RunResult {
  completion: Completion;
  /** What the broker exits with. */
  exitCode: number;
}

export async function runCommand(request: RunRequest, context: RunContext): Promise<RunResult> {
  const stdin = planStdin(request, context.launcher);
  const recording = openRecording(request, context.roots);
  const stdinState = describeStdin(stdin, context.launcher.closed.includes(0));
  const observation = new Observation(request, context.launcher, recording);
  const tracked = request.track.length === 0 ? null : await trackFiles(request, context, recording);
  const started = observation.start(
    { ...request, searchPath: context.searchPath, stdin, withheld: request.reportFd },
    argvDigest(request.argv),
  );
  const surroundings = { stdin: stdinState, previous: readPrevious(recording) };
  if (started.kind === "started") {
    announce(context, recording, observation);
    await observation.watch();
  }
  const changes = started.kind === "started" ? (tracked?.() ?? null) : null;
  const receipt = buildReceipt(request, { ...surroundings, changes }, context, recording, observation);
  const artifacts = publishRecording(recording, receipt, changes, request.durable);
  handOffStreams(recording, observation);
  const quickview = request.quickview
    ? makeQuickview(recording.stdout, recording.stderr, recording.journal.kept)
    : null;
  const inline = quickview === null && recording.place === null ? makeInline(recording.stdout, recording.stderr) : null;
  const completion = completionOf(receipt, quickview, inline, artifacts, rootToName(context, recording));
  return { completion, exitCode: observation.ending.exitCode(receipt.exit) };
}

function planStdin({ stdin, limits }: RunRequest, launcher: Launcher): StdinPlan {
  if (typeof stdin === "object") return { kind: "file", path: stdin.file };
  const capture: StdinPlan = { kind: "capture", budgetBytes: limits.maxStdinBytes };
  if (stdin === "auto") return launcher.ownsStdin() ? capture : { kind: "inherit" };
  return stdin === "capture" ? capture : { kind: stdin };
}

/** Observes the tracked files; the answer observes them again. Loaded only when something is tracked. */
async function trackFiles(
  { track }: RunRequest,
  { cwd }: RunContext,
  { place }: Recording,
): Promise<() => TreeChanges> {
  const { compareTrees, observeTree } = await import("./track.ts");
  const options = { cwd, stores: place === null ? [] : [place.root] };
  const before = observeTree(track, options);
  return () => compareTrees(before, observeTree(track, { ...options, before }));
}

function announce(
  { announce: print }: RunContext,
  { place, journal, runId, warnings }: Recording,
  observation: Observation,
): void {
  if (print === undefined || observation.pid === null) return;
  if (place === null) {
    warnings.push("not announced: nothing of this run is stored");
    return;
  }
  journal.flush();
  print({
    schema: SCHEMA.announcement,
    run_id: runId,
    suffix: suffixOf(runId),
    pid: observation.pid,
    run_dir: toByteText(place.path),
    started_at: formatTime(observation.startedMs),
  });
}

/** The root that a later question has to name, since it would look elsewhere; null: it looks here. */
function rootToName({ roots, firstRootIsFound }: RunContext, { place }: Recording): string | null {
  if (place === null || (firstRootIsFound && roots[0]?.root.equals(place.root) === true)) return null;
  return decodeEscaped(place.root);
}

/** Streams that descendants still have go to a drainer. Where there can be none, a writer meets SIGPIPE. */
function handOffStreams({ place }: Recording, observation: Observation): void {
  const { child, heldOpen, budgetLeft } = observation;
  if (child === null || heldOpen.length === 0) return;
  const streams = heldOpen.map(({ stream }) => stream);
  // Without a place late output is read and dropped.
  const late = { directory: place?.path ?? new Uint8Array(0), budgetBytes: place === null ? 0 : budgetLeft };
  if (child.handOff(streams, late, observation.elapsedNs())) return;
  for (const stream of streams) child.release(stream);
}

/** SHA-256 over the NUL-terminated arguments. */
function argvDigest(argv: readonly Uint8Array[]): string {
  const hash = new Bun.CryptoHasher("sha256");
  const nul = new Uint8Array(1);
  for (const argument of argv) hash.update(argument).update(nul);
  return hash.digest("hex");
}
