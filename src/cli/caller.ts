/** What the process was given: argv, working directory, the variables we read. The only place that looks. */
import { encodeEscaped } from "../base/bytes.ts";
import { AshError } from "../base/errors.ts";
import { ownUserId, readSymlink, readWhole } from "../base/files.ts";
import { parseCount } from "../base/units.ts";
import { DEFAULT_LIMITS, type RunLimits } from "../run/request.ts";
import { type RootEnvironment, trimSlashes } from "../store/root.ts";

export type OutputFormat = "human" | "json" | "brief";

/** All words of the command line, ours first, byte for byte. */
export function callerArgv(): Buffer[] {
  const raw = readWhole("/proc/self/cmdline");
  // Without /proc: the runtime's own view, in which bytes that are not UTF-8 are replaced.
  if (raw === null) return [process.argv0, ...process.argv.slice(2)].map((word) => Buffer.from(word, "utf8"));
  const words: Buffer[] = [];
  for (let at = 0; at < raw.length; ) {
    const end = raw.indexOf(0, at);
    words.push(raw.subarray(at, end < 0 ? raw.length : end));
    at = end < 0 ? raw.length : end + 1;
  }
  return words;
}

/** Absolute and physical. The runtime's string replaces bytes that are not UTF-8; then the kernel is asked. */
export function callerCwd(): Buffer {
  const cwd = process.cwd();
  if (!cwd.includes("\uFFFD")) return Buffer.from(cwd, "utf8");
  return readSymlink("/proc/self/cwd") ?? Buffer.from(cwd, "utf8");
}

/** `rootOption` is `--root`, which wins over ASH_ROOT. */
export function rootEnvironment(cwd: Buffer, rootOption: string | null): RootEnvironment {
  const given = rootOption === null ? variableBytes("ASH_ROOT") : encodeEscaped(rootOption);
  const stateHome = variableBytes("XDG_STATE_HOME");
  const home = variableBytes("HOME") ?? passwdHome();
  return {
    cwd,
    given,
    home: home === null ? null : trimSlashes(home),
    stateHome: stateHome !== null && stateHome[0] === 0x2f ? trimSlashes(stateHome) : null,
    temporary: trimSlashes(variableBytes("TMPDIR") ?? Buffer.from("/tmp")),
    uid: ownUserId(),
  };
}

/** A variable that is set and not empty. The runtime's string replaces bytes that are not UTF-8; then the kernel is asked. */
function variableBytes(name: string): Buffer | null {
  const text = process.env[name] ?? "";
  if (text === "") return null;
  if (!text.includes("\uFFFD")) return Buffer.from(text, "utf8");
  const entries = readWhole("/proc/self/environ") ?? Buffer.alloc(0);
  const start = Buffer.concat([Buffer.alloc(1), entries]).indexOf(`\0${name}=`);
  const value = start < 0 ? null : entries.subarray(start + name.length + 1);
  if (value === null) return Buffer.from(text, "utf8");
  const end = value.indexOf(0);
  return end < 0 ? value : value.subarray(0, end);
}

/** The home directory of the passwd entry, for a caller without $HOME (cron-like environments). */
function passwdHome(): Buffer | null {
  const uid = String(ownUserId());
  for (const line of readWhole("/etc/passwd")?.toString("utf8").split("\n") ?? []) {
    const fields = line.split(":");
    if (fields[2] === uid && fields[5]?.startsWith("/")) return Buffer.from(fields[5], "utf8");
  }
  return null;
}

/** ASH_FMT; empty counts as unset. Throws AshError `bad_environment` for anything else than its three values. */
export function outputFormat(): OutputFormat {
  const value = process.env.ASH_FMT ?? "";
  if (value === "" || value === "human") return "human";
  if (value === "json" || value === "brief") return value;
  throw new AshError("bad_environment", `ASH_FMT is '${value}'`, { hint: "it is json, brief or human" });
}

/** Whether ASH_FMT asks for JSON, whatever else it may be. */
export function wantsJson(): boolean {
  return process.env.ASH_FMT === "json";
}

/** The default limits with ASH_MAX_OUTPUT_BYTES and ASH_MAX_STDIN_BYTES; 0 means no budget. Throws `bad_environment`. */
export function callerLimits(): RunLimits {
  return {
    ...DEFAULT_LIMITS,
    maxOutputBytes: budgetVariable("ASH_MAX_OUTPUT_BYTES", DEFAULT_LIMITS.maxOutputBytes),
    maxStdinBytes: budgetVariable("ASH_MAX_STDIN_BYTES", DEFAULT_LIMITS.maxStdinBytes),
  };
}

function budgetVariable(name: string, fallback: number | null): number | null {
  const text = process.env[name] ?? "";
  if (text === "") return fallback;
  const bytes = parseCount(text);
  if (bytes === null)
    throw new AshError("bad_environment", `${name} is '${text}'`, {
      hint: "it is a number of bytes; 0 means no budget",
    });
  return bytes === 0 ? null : bytes;
}

export function searchPath(): string | null {
  return process.env.PATH ?? null;
}

/** NO_COLOR, TERM=dumb and a stdout that is no terminal mean no colour. */
export function wantsColor(stdoutIsTerminal: boolean): boolean {
  return stdoutIsTerminal && (process.env.NO_COLOR ?? "") === "" && process.env.TERM !== "dumb";
}
