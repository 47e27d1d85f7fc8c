/** A query's answer for people: one item a line, then what it is a part of. Pure. */
import { displayBytes } from "../base/bytes.ts";
import { makeVisible } from "../base/terminal-text.ts";
import { formatBytes } from "../base/units.ts";
import type { QueryItem, QueryResult } from "../evidence/query-result.ts";

export function renderQueryResult(result: QueryResult, files: readonly Buffer[]): string {
  const lines = result.items.map(renderItem);
  const { items, totals, bound } = result;
  const provisional = result.identity.provisional ? " (the run has no receipt yet)" : "";
  lines.push(
    `shown ${items.length} of ${totals.items} lines, ${formatBytes(totals.bytes)} of ${result.source}${provisional}`,
  );
  if (bound !== null) lines.push(`the whole: ${files.map((file) => makeVisible(displayBytes(file))).join(" ")}`);
  return `${lines.join("\n")}\n`;
}

function renderItem(item: QueryItem): string {
  const cut = item.truncated ? ` … (cut: the line has ${formatBytes(item.bytes)} at offset ${item.offset})` : "";
  const open = item.unterminated === true ? " (no newline)" : "";
  if (item.stream === undefined) return `${item.line}${open}: ${item.text}${cut}`;
  const elapsed = item.elapsed_ns === undefined ? "?" : `${(item.elapsed_ns / 1e9).toFixed(3)}s`;
  return `${item.line}+${elapsed} ${item.stream}${open}| ${item.text}${cut}`;
}
