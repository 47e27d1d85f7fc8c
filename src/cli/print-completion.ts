/** The answer of `ash` and `ashctl run`: one value, three renderings. */
import { isTerminal } from "../base/descriptors.ts";
import type { Completion } from "../evidence/completion.ts";
import { renderBriefCompletion, renderCompletion } from "../render/completion-text.ts";
import { type OutputFormat, wantsColor } from "./caller.ts";
import { writeAll } from "./output.ts";

export function printCompletion(completion: Completion, format: OutputFormat, fd = 1): void {
  const result = writeAll(fd, textOf(completion, format, fd));
  // A reader that has gone wants nothing; anything else (a full disk) is told, and the child's code still returned.
  if (result.kind === "failed") writeAll(2, `ash: the completion could not be printed: ${result.reason}\n`);
}

function textOf(completion: Completion, format: OutputFormat, fd: number): string {
  if (format === "json") return `${JSON.stringify(completion)}\n`;
  const color = wantsColor(isTerminal(fd));
  return format === "brief" ? renderBriefCompletion(completion, color) : renderCompletion(completion, color);
}
