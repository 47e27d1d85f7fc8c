/**
 * File names, schema names and closed lists of the evidence. Constants only: the hot path loads this and never zod.
 * File names, states and event types are promises to other programs.
 */
export const FILES = {
  stdin: "stdin.bin",
  stdout: "stdout.bin",
  stderr: "stderr.bin",
  events: "events.jsonl",
  receipt: "receipt.json",
  changes: "changes.json",
} as const;

/** What was written after the run was finalized: `stdout.late.bin`, `stderr.late.bin`, and its journal `late.jsonl`. */
export function lateFile(name: "stdout" | "stderr" | "events"): string {
  return name === "events" ? "late.jsonl" : `${name}.late.bin`;
}

export const SCHEMA = {
  receipt: "agent-shell/receipt@1",
  changes: "agent-shell/changes@1",
  completion: "agent-shell/completion@1",
  announcement: "agent-shell/announcement@1",
  error: "agent-shell/error@1",
  runSpec: "agent-shell/run-spec@1",
  runList: "agent-shell/run-list@1",
  queryResult: "agent-shell/query-result@1",
  root: "agent-shell/root@1",
} as const;

export const STATES = [
  "completed",
  "timed_out",
  "output_limited",
  "input_limited",
  "cancelled",
  "failed_to_start",
  "interrupted",
] as const;

export const EXIT_KINDS = ["code", "signal", "none"] as const;
/** Why a stream's record ends where it does. */
export const STREAM_ENDS = ["eof", "held_open", "budget", "error", "closed"] as const;
export const STDIN_KINDS = ["tty", "null", "file", "pipe", "socket", "closed", "captured", "other"] as const;
export const QUALITIES = ["exact", "sampled", "upper_bound", "unavailable"] as const;
export const DEDUP = ["full", "partial", "unavailable"] as const;
