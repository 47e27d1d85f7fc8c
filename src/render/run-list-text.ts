/** A list of runs for people. Pure. */
import { displayBytes, fromByteText } from "../base/bytes.ts";
import { quoteArgument } from "../base/shell-quote.ts";
import { makeVisible } from "../base/terminal-text.ts";
import { formatBytes, formatDuration } from "../base/units.ts";
import type { RunList } from "../evidence/run-list.ts";
import { formatExit } from "./completion-text.ts";

const COMMAND_WIDTH = 60;

/** One line a run, then what was left out. */
export function renderRunList(items: RunList["items"], total: number, damaged: readonly string[]): string {
  const lines = items.map((run) =>
    [
      run.suffix,
      run.started_at.slice(0, 19).replace("T", " "),
      (run.exit === null ? run.state : run.state === "completed" ? formatExit(run.exit) : run.state).padEnd(15),
      (run.wall_ms === null ? "-" : formatDuration(run.wall_ms)).padStart(8),
      formatBytes(run.bytes).padStart(9),
      commandOf(run),
    ].join("  "),
  );
  if (total > items.length + damaged.length) lines.push(`${items.length} of ${total} runs; more with --limit ${total}`);
  if (total === 0) lines.push("no runs in this root");
  for (const runId of damaged) lines.push(`damaged receipt: ${runId}`);
  return `${lines.join("\n")}\n`;
}

function commandOf({ argv }: RunList["items"][number]): string {
  if (argv === null) return "(no receipt)";
  const text = makeVisible(argv.map((word) => quoteArgument(displayBytes(fromByteText(word)))).join(" "));
  return text.length <= COMMAND_WIDTH ? text : `${text.slice(0, COMMAND_WIDTH - 1)}…`;
}
