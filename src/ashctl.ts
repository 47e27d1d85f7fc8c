/** `ashctl VERB ...`: questions to stored runs, and the recorder with options. */
import { AshError } from "./base/errors.ts";
import { answer } from "./cli/answer.ts";
import { nearest, parseArguments, splitAtChild } from "./cli/arguments.ts";
import { wantsJson } from "./cli/caller.ts";
import type { CommandContext } from "./cli/command.ts";
import { COMMANDS } from "./cli/commands.ts";
import { commandHelp, overviewHelp } from "./cli/help.ts";
import { writeAll } from "./cli/output.ts";
import { reportError } from "./cli/report-error.ts";
import { VERSION } from "./version.ts";

/** Runs what the words after `ashctl` say. Returns the exit code. */
export async function main(words: readonly Buffer[]): Promise<number> {
  Bun.unsafe.setJITPolicy(1);
  const { own, child } = splitAtChild(words);
  const verbAt = findVerb(own);
  const verb = own[verbAt];
  // Whether an error is wanted as JSON must be known even when the words cannot be parsed.
  const json =
    wantsJson() ||
    own.includes("--json") ||
    own.includes("--format=json") ||
    (own.includes("--format") && own[own.indexOf("--format") + 1] === "json");
  const broker = verb === "run";
  try {
    if (verb === undefined) {
      if (own.includes("--help")) return print(overviewHelp());
      if (own.includes("--version")) return print(`ashctl ${VERSION}\n`);
      if (own.length > 0) {
        throw new AshError("usage", `'${own.find((word) => word.startsWith("-")) ?? own[0]}' needs a verb`, {
          hint: "see: ashctl --help",
        });
      }
      writeAll(2, overviewHelp());
      return 2;
    }
    const entry = Object.hasOwn(COMMANDS, verb) ? COMMANDS[verb] : undefined;
    if (entry === undefined) {
      const near = nearest(verb, Object.keys(COMMANDS));
      throw new AshError("usage", `ashctl has no verb '${verb}'`, {
        hint: near === null ? "see: ashctl --help" : `did you mean 'ashctl ${near}'?`,
      });
    }
    const { command } = await entry.load();
    const rest = [...own.slice(0, verbAt), ...own.slice(verbAt + 1)];
    if (rest.includes("--version")) return print(`ashctl ${VERSION}\n`);
    if (rest.includes("--help")) return print(commandHelp(command.definition));
    const parsed = parseArguments(command.definition, rest, child);
    const format = parsed.values.get("format")?.[0] ?? (parsed.values.has("json") ? "json" : null);
    if (format !== "json" && format !== "human" && format !== null) {
      throw new AshError("usage", `--format is '${format}'`, { hint: "it is human or json" });
    }
    const context: CommandContext = { json: format === "json", format, root: parsed.values.get("root")?.[0] ?? null };
    return await command.run(context, parsed);
  } catch (error) {
    return reportError(error, { program: "ashctl", json, broker });
  }
}

/** Where the verb stands: the first word that is neither an option nor the value of a global one. */
function findVerb(own: readonly string[]): number {
  for (let i = 0; i < own.length; i += 1) {
    if (own[i] === "--root" || own[i] === "--format") i += 1;
    else if (!own[i]!.startsWith("-")) return i;
  }
  return -1;
}

function print(text: string): number {
  answer(
    false,
    () => null,
    () => text,
  );
  return 0;
}
