/** `ash PROGRAM [ARG ...]`: no options of its own, so that every word after the program is the child's. */
import { AshError } from "./base/errors.ts";
import { EXIT_BROKER } from "./base/exit-codes.ts";
import { callerLimits, outputFormat } from "./cli/caller.ts";
import { execute } from "./cli/execute.ts";
import { writeAll } from "./cli/output.ts";
import { printCompletion } from "./cli/print-completion.ts";
import { reportError } from "./cli/report-error.ts";
import { plainRequest } from "./run/request.ts";
import { VERSION } from "./version.ts";

export const ASH_HELP = `ash PROGRAM [ARG ...]    run a command; its whole output goes to files, a short receipt to you

The child gets your arguments, environment, working directory, stdin and terminal as they are. Everything after
PROGRAM belongs to it. Only 'ash --help' and 'ash --version' are ours; options are at 'ashctl run --help'.

Examples
  ash make -j4                      the receipt, and all of the output when it is at most 10 lines
  ashctl show latest                the output of the last run, both streams as they came
  ASH_FMT=json ash npm test         the same facts as one JSON document (ASH_FMT=brief: one line, and the output if small)

Exit code
  the child's; 128+N when signal N ended it; 127 not found; 126 not executable; 125 ash itself failed

Records go to .agent-shell of the project (ashctl root says which and why; ASH_ROOT=DIR chooses).
This is not the Almquist shell: a script runs with 'ash sh script.sh'.
`;

/** Runs what the words after `ash` say. Returns the exit code. */
export async function main(words: readonly Buffer[]): Promise<number> {
  const first = words[0]?.toString("utf8");
  if (first === undefined) {
    writeAll(2, ASH_HELP);
    return EXIT_BROKER;
  }
  if (words.length === 1 && first === "--help") return writeAll(1, ASH_HELP).kind === "failed" ? 1 : 0;
  if (words.length === 1 && first === "--version") return writeAll(1, `ash ${VERSION}\n`).kind === "failed" ? 1 : 0;
  let json = false;
  try {
    const format = outputFormat();
    json = format === "json";
    if (first.startsWith("-")) {
      throw new AshError("usage", `this is agent-shell, not the Almquist shell: '${first}' is no program`, {
        hint: "for a shell: /bin/sh; for options: ashctl run [OPTIONS] -- PROGRAM",
      });
    }
    const { completion, exitCode } = await execute(plainRequest(words, callerLimits()), null);
    printCompletion(completion, format);
    return exitCode;
  } catch (error) {
    return reportError(error, { program: "ash", json, broker: true });
  }
}
