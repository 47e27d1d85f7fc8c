/** Help made from the definitions. Fits a screen. */

import { GLOBAL_OPTIONS } from "./arguments.ts";
import type { CommandDefinition, OptionDefinition } from "./command.ts";
import { COMMANDS } from "./commands.ts";

export function overviewHelp(): string {
  const verbs = Object.entries(COMMANDS).map(([name, { summary }]): [string, string] => [name, summary]);
  return [
    "ashctl [--json] [--root DIR] VERB ...    ask and steer agent-shell's stored runs",
    "",
    "Verbs",
    ...columns(verbs),
    "",
    "RUN is a run id, the 8 hex digits at its end, latest, or @N for the N-th newest.",
    "",
    "Examples",
    ...columns([
      ["ash make -j4", "run and record (see: ash --help)"],
      ["ashctl show latest", "its output, both streams as they came"],
      ["ashctl run --cwd sub -- npm test", "the same recorder with options"],
      ["ashctl VERB --help", "options, examples and exit codes of a verb"],
    ]),
    "",
    "Exit code: 0; 2 usage; 3 no such run or evidence; 'run' exits as ash does.",
    "",
  ].join("\n");
}

export function commandHelp(definition: CommandDefinition): string {
  return [
    `${usageLine(definition)}    ${definition.summary}`,
    "",
    "Options",
    ...columns(
      [...definition.options, ...GLOBAL_OPTIONS].map((option): [string, string] => [optionLine(option), option.help]),
    ),
    "",
    "Examples",
    ...columns(definition.examples),
    "",
    "Exit code",
    ...columns(definition.exits),
    "",
  ].join("\n");
}

function usageLine({ name, positionals, child, options }: CommandDefinition): string {
  const words = ["ashctl", name, ...positionals, ...(options.length > 0 ? ["[OPTIONS]"] : [])];
  return (child === undefined ? words : [...words, "--", child]).join(" ");
}

function optionLine({ name, value, repeat }: OptionDefinition): string {
  return `--${name}${value === undefined ? "" : ` ${value}`}${repeat === true ? " ..." : ""}`;
}

/** Two columns, the first as wide as its widest entry up to 40. */
function columns(rows: readonly (readonly [string, string])[]): string[] {
  const width = Math.min(40, Math.max(...rows.map(([left]) => left.length)));
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`);
}
