/** How execvp finds a program, looked at again after a start has failed: to say truly why, and to run scripts without `#!`. */
import { displayBytes } from "../base/bytes.ts";
import { EXIT_BROKER, EXIT_CANNOT_EXECUTE, EXIT_NOT_FOUND } from "../base/exit-codes.ts";
import { fileState, pathExists, readHead } from "../base/files.ts";
import type { LaunchRequest } from "./launcher.ts";

/** What execvp searches when PATH is not set (glibc, musl). */
const DEFAULT_PATH = "/bin:/usr/bin";
const NO_RESOURCES = new Set(["EAGAIN", "ENOMEM", "EMFILE", "ENFILE"]);

type Lookup = Pick<LaunchRequest, "argv" | "cwd" | "searchPath">;

/** The files that execvp would try for the program, in order. A name with a slash is its own only candidate. */
function candidates({ argv, cwd, searchPath }: Lookup): Buffer[] {
  const name = Buffer.from(argv[0]!);
  if (name.length === 0) return [];
  const absolute = (path: Buffer) =>
    cwd !== null && path[0] !== 0x2f ? Buffer.concat([cwd, Buffer.from("/"), path]) : path;
  if (name.includes(0x2f)) return [absolute(name)];
  return (searchPath ?? DEFAULT_PATH)
    .split(":")
    .map((directory) => absolute(directory === "" ? name : Buffer.concat([Buffer.from(`${directory}/`), name])));
}

/** The first candidate that exists. On PATH a directory does not count. */
function findFile(lookup: Lookup): Buffer | null {
  const onPath = !lookup.argv[0]!.includes(0x2f);
  for (const path of candidates(lookup)) {
    const found = kindOf(path);
    if (found === "file" || (found === "directory" && !onPath)) return path;
  }
  return null;
}

function kindOf(path: Uint8Array): "file" | "directory" | null {
  const state = fileState(path);
  return state === null ? null : state.kind === "directory" ? "directory" : "file";
}

/** Whether a directory is there and may be entered. */
export function canEnter(directory: Uint8Array): boolean {
  return pathExists(Buffer.concat([directory, Buffer.from("/.")]));
}

/** The argv that runs a file with no `#!` line through /bin/sh, as execvp does. */
export function interpretWithSh(lookup: Lookup): Uint8Array[] | null {
  const path = findFile(lookup);
  return path === null ? null : [Buffer.from("/bin/sh"), path, ...lookup.argv.slice(1)];
}

export interface StartFailure {
  exitCode: number;
  errno: string;
  /** One line, without the program's name before it. */
  message: string;
}

/** Why the program could not start, and the exit code that says so: 127 not found, 126 found but not executable. */
export function explainStartFailure(lookup: Lookup, errno: string): StartFailure {
  const { argv, cwd } = lookup;
  const name = displayBytes(argv[0]!);
  const fail = (exitCode: number, message: string): StartFailure => ({ exitCode, errno, message });
  if (NO_RESOURCES.has(errno)) return fail(EXIT_BROKER, `the system has no room left to start it (${errno})`);
  if (cwd !== null && !canEnter(cwd)) {
    return fail(EXIT_BROKER, `the working directory '${displayBytes(cwd)}' cannot be entered`);
  }
  const path = findFile(lookup);
  if (path === null) {
    return fail(EXIT_NOT_FOUND, argv[0]!.includes(0x2f) ? `'${name}' does not exist` : `'${name}' is not on PATH`);
  }
  const where = displayBytes(path);
  if (kindOf(path) === "directory") return fail(EXIT_CANNOT_EXECUTE, `'${where}' is a directory`);
  switch (errno) {
    case "EACCES":
    case "EPERM":
      return fail(EXIT_CANNOT_EXECUTE, `'${where}' is not executable (${errno})`);
    case "ENOENT": {
      const interpreter = interpreterOf(path);
      return fail(
        EXIT_CANNOT_EXECUTE,
        interpreter === null
          ? `'${where}' needs a file that does not exist`
          : `the interpreter '${interpreter}' of '${where}' does not exist`,
      );
    }
    case "E2BIG":
      return fail(EXIT_CANNOT_EXECUTE, "the arguments and the environment are too long for the system (E2BIG)");
    case "ETXTBSY":
      return fail(EXIT_CANNOT_EXECUTE, `'${where}' is open for writing: text file busy (ETXTBSY)`);
    case "ENOEXEC":
    case "ELIBBAD":
      return fail(EXIT_CANNOT_EXECUTE, `'${where}' has a format the system cannot run (${errno})`);
    default:
      return fail(EXIT_CANNOT_EXECUTE, `'${where}' could not be started (${errno})`);
  }
}

/** The interpreter in a `#!` line or in an ELF image's PT_INTERP; null when there is none to read. */
function interpreterOf(path: Buffer): string | null {
  const text = readHead(path, 4096);
  if (text === null) return null;
  if (text.toString("latin1", 0, 2) === "#!") {
    const line = text.subarray(2, text.indexOf(0x0a) < 0 ? text.length : text.indexOf(0x0a));
    // A carriage return is part of the name, as the kernel takes it.
    return (
      displayBytes(line)
        .replace(/^[ \t]+/, "")
        .split(/[ \t]/)[0] ?? null
    );
  }
  if (text.toString("latin1", 0, 4) !== "\x7fELF") return null;
  const loader = /\/[\x21-\x7e]*ld-[\x21-\x7e]+/.exec(text.toString("latin1"));
  return loader === null ? null : loader[0];
}
