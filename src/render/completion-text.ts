/** A completion as people and agents read it. Pure. */
import { displayBytes, fromByteText } from "../base/bytes.ts";
import { quoteArgument } from "../base/shell-quote.ts";
import { makeVisible } from "../base/terminal-text.ts";
import { formatAge, formatBytes, formatDuration } from "../base/units.ts";
import type { Completion, LineItem } from "../evidence/completion.ts";
import type { Exit, HostState, Measure } from "../evidence/receipt.ts";

/** The whole answer: facts, then either the output or how to get it. */
export function renderCompletion(completion: Completion, color: boolean): string {
  return [
    firstLine(completion, color),
    ...facts(completion).map((line) => `  ${line}`),
    ...outcome(completion).map((line) => `  ${line}`),
    "",
  ].join("\n");
}

/** The first line with the suffix, then only output, diagnostics and warnings. */
export function renderBriefCompletion(completion: Completion, color: boolean): string {
  const lines = [...failures(completion), ...heldOpen(completion), ...quickview(completion), ...inline(completion)].map(
    (line) => `  ${line}`,
  );
  return [`${firstLine(completion, color)} run=${completion.suffix}`, ...lines, ""].join("\n");
}

export function formatExit(exit: Exit): string {
  if (exit.kind === "none") return "none";
  return `${exit.kind}:${exit.kind === "code" ? exit.code : exit.signal}`;
}

function firstLine(completion: Completion, color: boolean): string {
  const good = completion.exit.kind === "code" && completion.exit.code === 0 && completion.state === "completed";
  const mark = color ? (good ? "\u001b[32m✓\u001b[0m" : "\u001b[31m✗\u001b[0m") : good ? "✓" : "✗";
  const cpu = completion.cpu;
  const used = cpu === null || cpu.user_ms === null || cpu.system_ms === null ? null : cpu.user_ms + cpu.system_ms;
  return [
    `${mark} state=${completion.state}`,
    `exit=${formatExit(completion.exit)}`,
    `duration=${formatDuration(completion.wall_ms)}`,
    `cpu=${used === null ? "unavailable" : `${formatDuration(used)}${cpu?.partial ? "(partial)" : ""}`}`,
    `max-rss=${completion.rss === null ? "unavailable" : formatMeasure(completion.rss.process_bytes)}`,
  ].join(" ");
}

/** `84.2MiB` exact, `~84.2MiB` sampled, `<=25.1MiB` an upper bound. */
export function formatMeasure(measure: Measure): string {
  if (measure.value === null) return "unavailable";
  const mark = { exact: "", sampled: "~", upper_bound: "<=", unavailable: "" }[measure.quality];
  return `${mark}${formatBytes(measure.value)}`;
}

function facts(completion: Completion): string[] {
  const lines = [timeLine(completion), hostLine(completion)];
  if (completion.artifacts !== null) {
    lines.push(`artifacts: ${makeVisible(displayBytes(fromByteText(completion.artifacts)))}`);
  }
  lines.push(storageLine(completion));
  lines.push(changesLine(completion));
  return lines;
}

function timeLine({ started_at, ended_at, cpu }: Completion): string {
  const of = (ms: number | null | undefined) => (ms === null || ms === undefined ? "unavailable" : formatDuration(ms));
  const percent = cpu?.percent === null || cpu?.percent === undefined ? "unavailable" : `${cpu.percent.toFixed(1)}%`;
  return `time: start=${started_at} end=${ended_at} user=${of(cpu?.user_ms)} system=${of(cpu?.system_ms)} cpu=${percent}`;
}

function hostLine({ host }: Completion): string {
  const change = (of: (state: HostState) => string | null) => {
    const text = (state: HostState | null) => (state === null ? null : of(state)) ?? "unavailable";
    return `${text(host.before)}->${text(host.after)}`;
  };
  return [
    "host:",
    `load=${change((state) => state.load?.map((value) => value.toFixed(2)).join("/") ?? null)}`,
    `memory-available=${change((s) => (s.memory_available_bytes === null ? null : formatBytes(s.memory_available_bytes)))}`,
    `memory-used=${change((s) => (s.memory_used_percent === null ? null : `${s.memory_used_percent.toFixed(1)}%`))}`,
    `processes=${change((s) => (s.processes === null ? null : String(s.processes)))}`,
  ].join(" ");
}

function changesLine({ changes }: Completion): string {
  if (!changes.observed) return "changes: observed=no";
  const { added, removed, modified, complete, reason } = changes;
  const whole = complete ? "complete=yes" : `complete=no (${makeVisible(reason ?? "unknown")})`;
  return `changes: observed=yes added=${added} removed=${removed} modified=${modified} ${whole}`;
}

function storageLine({ storage, streams }: Completion): string {
  const observed = [streams.stdout, streams.stderr].filter((stream) => stream !== null);
  const complete = observed.filter((stream) => stream.complete).length;
  return [
    `storage: streams=${complete}/${observed.length}`,
    `logical=${formatBytes(storage.logical_bytes)}`,
    `new=${formatBytes(storage.new_bytes)}`,
    `reused=${formatBytes(storage.reused_bytes)}`,
    `complete=${storage.complete ? "yes" : "no"}`,
    ...(storage.reason === null ? [] : [`reason=${storage.reason}`]),
    ...(storage.stored ? [] : ["stored=none"]),
    ...(storage.lost_bytes === 0 ? [] : [`lost=${formatBytes(storage.lost_bytes)}`]),
  ].join(" ");
}

function outcome(completion: Completion): string[] {
  const lines: string[] = [];
  const previous = completion.previous;
  if (previous !== null) {
    const same = (stream: { same: boolean }) => (stream.same ? "same" : "differs");
    lines.push(
      `previous: ${previous.run_id.slice(-8)} ${formatAge(previous.age_ms)} ago exit=${formatExit(previous.exit)} ` +
        `stdout=${same(previous.streams.stdout)} stderr=${same(previous.streams.stderr)}`,
    );
  }
  lines.push(
    ...stopped(completion),
    ...failures(completion),
    ...heldOpen(completion),
    ...quickview(completion),
    ...inline(completion),
  );
  if (completion.next !== null) lines.push(`next: ${completion.next.map(quoteArgument).join(" ")}`);
  return lines;
}

function failures(completion: Completion): string[] {
  const lines = completion.failure === null ? [] : [`failure: ${makeVisible(completion.failure.message)}`];
  return [...lines, ...completion.warnings.map((warning) => `warning: ${makeVisible(warning)}`)];
}

function heldOpen({ streams }: Completion): string[] {
  const lines: string[] = [];
  for (const name of ["stdout", "stderr"] as const) {
    const stream = streams[name];
    if (stream?.ended !== "held_open") continue;
    const pids = stream.held_by ?? [];
    lines.push(
      `held-open: ${name}${pids.length === 0 ? "" : ` by pid ${pids.join(" ")}`} (outlived the command; it goes on)`,
    );
  }
  return lines;
}

function stopped({ terminated }: Completion): string[] {
  if (terminated === null || terminated.signalled === 0) return [];
  const { signalled, killed, survivors } = terminated;
  const names = survivors.map(({ pid, argv0 }) => `${pid} (${argv0})`);
  return [
    `stopped: processes=${signalled} killed=${killed}${names.length === 0 ? "" : ` survivors=${names.join(" ")}`}`,
  ];
}

function inline({ inline }: Completion): string[] {
  if (inline === null) return [];
  const lines = inline.items.flatMap(({ stream, part, lines: texts, omitted_bytes }) => [
    ...(part === "tail" ? [`  … ${formatBytes(omitted_bytes)} of ${stream} left out …`] : []),
    ...texts.map((text) => `  ${stream}| ${text}`),
  ]);
  return lines.length === 0 ? [] : ["output:", ...lines];
}

function quickview({ quickview }: Completion): string[] {
  if (quickview === null) return [];
  return ["quickview:", ...quickview.items.map((item) => `  ${quickviewLine(item)}`)];
}

function quickviewLine(item: LineItem): string {
  const seconds = (item.elapsed_ns / 1e9).toFixed(3);
  return `${seconds}s ${item.stream}${item.unterminated ? " (no newline)" : ""}| ${item.text}`;
}
