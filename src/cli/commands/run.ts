/** `ashctl run`: the executor of `ash`, with options. */
import { encodeEscaped, fromByteText } from "../../base/bytes.ts";
import { AshError } from "../../base/errors.ts";
import { fileState, physicalPath, readHead } from "../../base/files.ts";
import { makeVisible } from "../../base/terminal-text.ts";
import { parseCount } from "../../base/units.ts";
import type { Announcement } from "../../evidence/announcement.ts";
import type { RunSpec } from "../../evidence/run-spec.ts";
import { canEnter } from "../../run/program-lookup.ts";
import { plainRequest, type RunLimits, type RunRequest } from "../../run/request.ts";
import type { Arguments } from "../arguments.ts";
import { callerCwd, callerLimits, outputFormat } from "../caller.ts";
import type { Command } from "../command.ts";
import { execute } from "../execute.ts";
import { writeAll } from "../output.ts";
import { printCompletion } from "../print-completion.ts";

export const command: Command = {
  definition: {
    name: "run",
    summary: "run a command with options",
    positionals: [],
    child: "PROGRAM [ARG ...]",
    options: [
      { name: "cwd", value: "DIR", help: "Run in DIR (the store stays that of the caller's directory)" },
      {
        name: "env",
        value: "NAME=VALUE",
        repeat: true,
        help: "Set a variable (the program is looked up on your own PATH)",
      },
      { name: "unset-env", value: "NAME", repeat: true, help: "Remove a variable" },
      { name: "label", value: "KEY=VALUE", repeat: true, help: "Label the run" },
      { name: "no-quickview", help: "Leave the output out of the answer, however small" },
      { name: "sample-ms", value: "N", help: "Sample the process tree every N ms (default: 2 ms, growing to 1 s)" },
      { name: "timeout-ms", value: "N", help: "Stop the whole process tree after N ms; 0: never (default)" },
      { name: "kill-after-ms", value: "N", help: "From asking processes to stop to killing them (default: 2000)" },
      { name: "linger-ms", value: "N", help: "Wait for streams that outlive the command (default: 250)" },
      { name: "stdin", value: "auto|inherit|capture|null", help: "Default auto: capture what nobody else reads" },
      { name: "stdin-file", value: "PATH", help: "Give the command a file as stdin" },
      {
        name: "max-output-bytes",
        value: "N",
        help: "Stop the run beyond N bytes of output; 0: no budget (default: 256 MiB)",
      },
      { name: "max-stdin-bytes", value: "N", help: "The same for captured stdin" },
      { name: "pty", help: "Run on a pseudo-terminal: one merged stream" },
      { name: "tee", help: "Also pass the output on to stdout and stderr; print no answer there" },
      { name: "report-fd", value: "N", help: "Write the answer to descriptor N" },
      { name: "record-env", value: "NAME", repeat: true, help: "Record the value of a variable" },
      {
        name: "track",
        value: "PATH",
        repeat: true,
        help: "Observe the files under PATH before and after (changes.json)",
      },
      { name: "durable", help: "Answer when everything is on the disk" },
      { name: "require-evidence", help: "Do not run when nothing can be stored" },
      { name: "announce", help: "Print the run's id as JSON on stderr once it has started" },
      { name: "spec", value: "FILE", help: "Read the run from JSON (ashctl schema run-spec); '-' is stdin" },
    ],
    examples: [
      ["ashctl run --cwd web -- npm test", "in another directory"],
      ["ashctl run --env CI=1 -- make check", "with one more variable"],
      ["ashctl run --timeout-ms 60000 -- npm test", "at most a minute, then the whole tree is stopped"],
      ["ashctl run --json -- cargo build", "the answer as JSON"],
    ],
    exits: [
      ["the child's", "when it ended by itself; 128+N for signal N"],
      ["125", "ashctl itself failed, or a budget was reached"],
      ["124", "the time-out passed"],
      ["126, 127", "not executable, not found"],
    ],
  },
  async run(context, parsed) {
    const format = context.format ?? outputFormat();
    const print = (announcement: Announcement) => void writeAll(2, `${JSON.stringify(announcement)}\n`);
    const announce = parsed.values.has("announce") ? print : undefined;
    const request = await requestOf(parsed);
    const { completion, exitCode } = await execute(request, context.root, announce);
    const fd = request.reportFd ?? (request.tee ? null : 1);
    if (fd !== null) printCompletion(completion, format, fd);
    else if (completion.failure !== null) writeAll(2, `ashctl: ${makeVisible(completion.failure.message)}\n`);
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
    ...plainRequest(argv, limitsOf(values, spec)),
    cwd: directoryOf(values.get("cwd")?.[0] ?? spec?.cwd),
    environment: environmentOf(values, spec),
    labels: { ...spec?.labels, ...pairsOf(values, "label") },
    quickview: !values.has("no-quickview") && spec?.quickview !== false,
    sampleMs: sampleMs === 0 ? null : sampleMs,
    stdin: stdinOf(values, spec),
    pty: values.has("pty") || spec?.pty === true,
    tee: values.has("tee") || spec?.tee === true,
    reportFd: countOf(values, "report-fd"),
    recordEnv: namesOf([...(spec?.record_env ?? []), ...(values.get("record-env") ?? [])]),
    track: [...(spec?.track ?? []), ...(values.get("track") ?? [])].map(encodeEscaped),
    durable: values.has("durable") || spec?.durable === true,
    requireEvidence: values.has("require-evidence") || spec?.require_evidence === true,
  };
}

function limitsOf(values: Arguments["values"], spec: RunSpec | null): RunLimits {
  const defaults = callerLimits();
  const zeroIsNone = (count: number | null | undefined, fallback: number | null) =>
    count === null || count === undefined ? fallback : count === 0 ? null : count;
  return {
    timeoutMs: zeroIsNone(countOf(values, "timeout-ms") ?? spec?.timeout_ms, defaults.timeoutMs),
    killAfterMs: countOf(values, "kill-after-ms") ?? spec?.kill_after_ms ?? defaults.killAfterMs,
    lingerMs: countOf(values, "linger-ms") ?? spec?.linger_ms ?? defaults.lingerMs,
    maxOutputBytes: zeroIsNone(countOf(values, "max-output-bytes") ?? spec?.max_output_bytes, defaults.maxOutputBytes),
    maxStdinBytes: zeroIsNone(countOf(values, "max-stdin-bytes") ?? spec?.max_stdin_bytes, defaults.maxStdinBytes),
  };
}

const STDIN = ["auto", "inherit", "capture", "null"] as const;

function stdinOf(values: Arguments["values"], spec: RunSpec | null): RunRequest["stdin"] {
  const path = values.get("stdin-file")?.[0] ?? spec?.stdin_file;
  const text = values.get("stdin")?.[0] ?? spec?.stdin;
  if (path !== undefined) {
    if (text !== undefined)
      throw new AshError("usage", "stdin is given twice: --stdin and --stdin-file", { hint: "choose one" });
    const file = absolute(path);
    const state = fileState(file);
    if (state === null || state.kind === "directory" || readHead(file, 0) === null) {
      throw new AshError("usage", `--stdin-file '${path}' cannot be read`);
    }
    return { file };
  }
  const choice = STDIN.find((each) => each === (text ?? "auto"));
  if (choice === undefined) throw new AshError("usage", `--stdin is '${text}'`, { hint: `one of: ${STDIN.join(" ")}` });
  return choice;
}

function absolute(path: string): Buffer {
  const bytes = encodeEscaped(path);
  return bytes[0] === 0x2f ? bytes : Buffer.concat([callerCwd(), Buffer.from("/"), bytes]);
}

function directoryOf(path: string | undefined): Buffer | null {
  if (path === undefined) return null;
  const directory = path === "" ? null : physicalPath(absolute(path));
  if (directory === null || !canEnter(directory)) {
    throw new AshError("usage", `--cwd '${path}' is not a directory that can be entered`);
  }
  return directory;
}

function environmentOf(values: Arguments["values"], spec: RunSpec | null): RunRequest["environment"] {
  const set = new Map(Object.entries(spec?.env ?? {}).map(([name, value]) => [name, fromByteText(value)]));
  for (const [name, value] of Object.entries(pairsOf(values, "env"))) set.set(name, encodeEscaped(value));
  const unset = new Set([...(spec?.unset_env ?? []), ...(values.get("unset-env") ?? [])]);
  for (const name of unset) {
    if (name === "" || name.includes("="))
      throw new AshError("usage", `--unset-env '${name}' is not a variable's name`);
    if (set.has(name)) throw new AshError("usage", `'${name}' is both set and unset`);
  }
  return set.size + unset.size === 0 ? null : { set, unset };
}

function namesOf(names: readonly string[]): string[] {
  for (const name of names) {
    if (name === "" || name.includes("="))
      throw new AshError("usage", `--record-env '${name}' is not a variable's name`);
  }
  return [...new Set(names)];
}

/** `NAME=VALUE` words of a repeatable option; the last one of a name counts. */
function pairsOf(values: Arguments["values"], option: string): Record<string, string> {
  const pairs: Record<string, string> = Object.create(null) as Record<string, string>;
  for (const word of values.get(option) ?? []) {
    const equals = word.indexOf("=");
    if (equals <= 0)
      throw new AshError("usage", `--${option} '${word}' has no name and value`, {
        hint: `--${option} ${option === "label" ? "KEY" : "NAME"}=VALUE`,
      });
    pairs[word.slice(0, equals)] = word.slice(equals + 1);
  }
  return pairs;
}

function countOf(values: Arguments["values"], option: string): number | null {
  const text = values.get(option)?.[0];
  if (text === undefined) return null;
  const count = parseCount(text);
  if (count === null)
    throw new AshError("usage", `--${option} '${text}' is not a whole number up to 2^53 - 1`, {
      hint: `--${option} 100`,
    });
  return count;
}
