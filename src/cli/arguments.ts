/**
 * Command lines of `ashctl`, read strictly against the verb's definition: an unknown or misspelt option is refused, an
 * option never swallows another one as its value, and everything behind the first `--` belongs to the child, as bytes.
 */
import { parseArgs } from "node:util";
import { decodeEscaped } from "../base/bytes.ts";
import { AshError } from "../base/errors.ts";
import type { CommandDefinition, OptionDefinition } from "./command.ts";

/** Accepted before the verb and behind it. */
export const GLOBAL_OPTIONS: readonly OptionDefinition[] = [
  { name: "json", help: "One JSON document on stdout; errors as one object on stderr" },
  { name: "format", value: "human|json", help: "The same choice by name" },
  {
    name: "root",
    value: "DIR",
    help: "The store to use (default: found from the working directory, see 'ashctl root')",
  },
  { name: "help", help: "Show this help" },
];

export interface Arguments {
  /** By option name; a repeatable option's values in order. */
  values: ReadonlyMap<string, readonly string[]>;
  positionals: readonly string[];
  /** What stands behind `--`, byte for byte; null when there is no `--`. */
  child: readonly Buffer[] | null;
}

/** The words before the first `--` as escaped text, and those behind it as they are. */
export function splitAtChild(words: readonly Buffer[]): { own: string[]; child: Buffer[] | null } {
  const at = words.findIndex((word) => word.toString("latin1") === "--");
  const own = (at < 0 ? words : words.slice(0, at)).map(decodeEscaped);
  return { own, child: at < 0 ? null : words.slice(at + 1) };
}

/** Reads a verb's words. Throws AshError `usage` with the nearest option as the hint. */
export function parseArguments(command: CommandDefinition, own: readonly string[], child: Buffer[] | null): Arguments {
  const options = [...command.options, ...GLOBAL_OPTIONS];
  const byName = new Map(options.map((option) => [option.name, option]));
  const words = attachValues(own, byName);
  for (const word of words) refuseUnknown(word, byName, command.name);
  const { values, positionals } = parseArgs({
    args: words,
    strict: true,
    allowPositionals: true,
    options: Object.fromEntries(
      options.map((option) => [
        option.name,
        { type: option.value === undefined ? "boolean" : "string", multiple: true } as const,
      ]),
    ),
  });
  const given = new Map<string, readonly string[]>();
  for (const [name, list] of Object.entries(values)) {
    const texts = (list as (string | boolean)[]).map(String);
    if (texts.length > 1 && byName.get(name)?.repeat !== true && byName.get(name)?.value !== undefined) {
      throw new AshError("usage", `--${name} is given ${texts.length} times`, { hint: "once is enough" });
    }
    given.set(name, texts);
  }
  const wanted = command.positionals.length;
  if (positionals.length > wanted) {
    throw new AshError("usage", `'${positionals[wanted]}' is one word too many for ashctl ${command.name}`, {
      hint:
        command.child === undefined
          ? `see: ashctl ${command.name} --help`
          : `a command goes behind '--': ashctl ${command.name} -- ${positionals.join(" ")}`,
    });
  }
  if (child !== null && command.child === undefined) {
    throw new AshError("usage", `ashctl ${command.name} takes no command behind '--'`, {
      hint: `see: ashctl ${command.name} --help`,
    });
  }
  return { values: given, positionals, child };
}

/** Ties each option to its value (`--cwd DIR` becomes `--cwd=DIR`), so that a value may begin with `-`. */
function attachValues(words: readonly string[], byName: ReadonlyMap<string, OptionDefinition>): string[] {
  const attached: string[] = [];
  for (let i = 0; i < words.length; i += 1) {
    const word = words[i]!;
    const option = word.startsWith("--") ? byName.get(word.slice(2)) : undefined;
    if (option?.value === undefined) {
      attached.push(word);
      continue;
    }
    const value = words[i + 1];
    if (value === undefined || (value.startsWith("--") && byName.has(value.slice(2).split("=")[0]!))) {
      throw new AshError("usage", `--${option.name} needs a value`, { hint: `--${option.name} ${option.value}` });
    }
    attached.push(`${word}=${value}`);
    i += 1;
  }
  return attached;
}

function refuseUnknown(word: string, byName: ReadonlyMap<string, OptionDefinition>, verb: string): void {
  if (!word.startsWith("-") || word === "-") return;
  const name = word.replace(/^--?/, "").split("=")[0]!;
  const option = word.startsWith("--") ? byName.get(name) : undefined;
  if (option === undefined) {
    const near = nearest(name, [...byName.keys()]);
    const asked = word.startsWith("--") ? `--${name}` : word;
    throw new AshError("usage", `ashctl ${verb} has no option '${asked}'`, {
      hint: near === null ? `see: ashctl ${verb} --help` : `did you mean --${near}?`,
    });
  }
  if (option.value === undefined && word.includes("=")) {
    throw new AshError("usage", `--${name} takes no value`, { hint: `just --${name}` });
  }
}

/** The name that differs least, when it differs by few letters; null otherwise. */
export function nearest(word: string, names: readonly string[]): string | null {
  let best: string | null = null;
  let least = Math.max(2, Math.floor(word.length / 3)) + 1;
  for (const name of names) {
    const distance = editDistance(word, name);
    if (distance < least) [best, least] = [name, distance];
  }
  return best;
}

/** Insertions, deletions and replacements between two words. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)));
    }
    row = next;
  }
  return row[b.length]!;
}
