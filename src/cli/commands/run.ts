/** `ashctl run`: the executor of `ash`, with options. */
import { fromByteText } from "../../base/bytes.ts";
import { AshError } from "../../base/errors.ts";
import { fileState } from "../../base/files.ts";
import { parseCount } from "../../base/units.ts";
import type { RunSpec } from "../../evidence/run-spec.ts";
import { plainRequest, type RunRequest } from "../../run/request.ts";
import type { Arguments } from "../arguments.ts";
import { callerCwd, outputFormat } from "../caller.ts";
import type { Command } from "../command.ts";
import { execute } from "../execute.ts";
import { printCompletion } from "../print-completion.ts";

export const command: Command = {
  definition: {
    name: "run",
    summary: "run a command with options",
    positionals: [],
    child: "PROGRAM [ARG ...]",
    options: [
      { name: "cwd", value: "DIR", help: "Run in DIR (the store stays that of the caller's directory)" },
      { name: "env", value: "NAME=VALUE", repeat: true, help: "Set a variable" },
      { name: "unset-env", value: "NAME", repeat: true, help: "Remove a variable" },
      { name: "label", value: "KEY=VALUE", repeat: true, help: "Label the run" },
      { name: "no-quickview", help: "Leave the output out of the answer, however small" },
      { name: "sample-ms", value: "N", help: "Sample the process tree every N ms (default: 2 ms, growing to 1 s)" },
      { name: "spec", value: "FILE", help: "Read the run from JSON (ashctl schema run-spec); '-' is stdin" },
    ],
    examples: [
      ["ashctl run --cwd web -- npm test", "in another directory"],
      ["ashctl run --env CI=1 -- make check", "with one more variable"],
      ["ashctl run --json -- cargo build", "the answer as JSON"],
    ],
    exits: [
      ["the child's", "when it ended by itself; 128+N for signal N"],
      ["125", "ashctl itself failed: usage, spec"],
      ["126, 127", "not executable, not found"],
    ],
  },
  async run(context, parsed) {
    const format = context.json ? "json" : outputFormat();
    const { completion, exitCode } = await execute(await requestOf(parsed), context.root);
    printCompletion(completion, format);
    return exitCode;
  },
};

async function requestOf({ values, child }: Arguments): Promise<RunRequest> {
  const specPath = values.get("spec")?.[0];
  const spec = specPath === undefined ? null : (await import("../run-spec-file.ts")).readRunSpec(specPath);
  if (spec !== null && child !== null && child.length > 0) {
    throw new AshError("usage", "the command is given twice: by --spec and behind '--'", { hint: "choose one" });
  }
  const argv = spec === null ? (child ?? []) : spec.argv.map(fromByteText);
  if (argv.length === 0) {
    throw new AshError("usage", "there is no command to run", { hint: "ashctl run [OPTIONS] -- PROGRAM [ARG ...]" });
  }
  const sampleMs = countOf(values, "sample-ms") ?? spec?.sample_ms ?? 0;
  return {
    ...plainRequest(argv),
    cwd: directoryOf(values.get("cwd")?.[0] ?? spec?.cwd),
    environment: environmentOf(values, spec),
    labels: { ...spec?.labels, ...pairsOf(values, "label") },
    quickview: !values.has("no-quickview") && spec?.quickview !== false,
    sampleMs: sampleMs === 0 ? null : sampleMs,
  };
}

function directoryOf(path: string | undefined): Buffer | null {
  if (path === undefined) return null;
  const directory = path.startsWith("/") ? Buffer.from(path) : Buffer.concat([callerCwd(), Buffer.from(`/${path}`)]);
  if (fileState(directory)?.kind !== "directory") {
    throw new AshError("usage", `--cwd '${path}' is not a directory that can be entered`);
  }
  return directory;
}

function environmentOf(values: Arguments["values"], spec: RunSpec | null): RunRequest["environment"] {
  const set = new Map(Object.entries(spec?.env ?? {}).map(([name, value]) => [name, fromByteText(value)]));
  for (const [name, value] of Object.entries(pairsOf(values, "env"))) set.set(name, Buffer.from(value));
  const unset = new Set([...(spec?.unset_env ?? []), ...(values.get("unset-env") ?? [])]);
  for (const name of unset) {
    if (name === "" || name.includes("="))
      throw new AshError("usage", `--unset-env '${name}' is not a variable's name`);
    if (set.has(name)) throw new AshError("usage", `'${name}' is both set and unset`);
  }
  return set.size + unset.size === 0 ? null : { set, unset };
}

/** `NAME=VALUE` words of a repeatable option; the last one of a name counts. */
function pairsOf(values: Arguments["values"], option: string): Record<string, string> {
  const pairs: Record<string, string> = Object.create(null) as Record<string, string>;
  for (const word of values.get(option) ?? []) {
    const equals = word.indexOf("=");
    if (equals <= 0)
      throw new AshError("usage", `--${option} '${word}' has no name and value`, { hint: `--${option} NAME=VALUE` });
    pairs[word.slice(0, equals)] = word.slice(equals + 1);
  }
  return pairs;
}

function countOf(values: Arguments["values"], option: string): number | null {
  const text = values.get(option)?.[0];
  if (text === undefined) return null;
  const count = parseCount(text);
  if (count === null)
    throw new AshError("usage", `--${option} '${text}' is not a whole number`, { hint: `--${option} 100` });
  return count;
}
