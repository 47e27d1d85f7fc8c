/**
 * What a launcher owes the child, as one list of rules for every implementation. A skip is a limit that the README
 * lists: the suite asserts that the launcher really breaks the rule, so that the list cannot rot.
 */
import { describe, expect, test } from "bun:test";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Exit } from "../../src/evidence/receipt.ts";
import { randomBytes } from "../helpers/random-bytes.ts";
import { TempDirectory } from "../helpers/temp-directory.ts";

/** One child to start. Byte strings are base64. */
export interface Order {
  argv: string[];
  set?: Record<string, string>;
  unset?: string[];
  cwd?: string;
  stdin?: "inherit" | "null";
  stdinFile?: string;
}

export interface Observed {
  bytes: number;
  sha256: string;
  /** The first 64 KiB, base64. */
  head: string;
}

export type Answer =
  | { kind: "failed"; errno: string }
  | {
      kind: "started";
      exit: Exit;
      usage: { cpuMs: number; maxRssBytes: number | null };
      /** Each end of a stream, and the exit. */
      observed: string[];
      stdout: Observed;
      stderr: Observed;
    };

interface Launching {
  /** A shell line in which `"$@"` is the launcher's process: the state that its caller leaves it in. */
  caller?: string;
  env?: Record<string, string>;
}

/** Runs orders through the launcher under test. */
type Launch = (orders: readonly Order[], launching?: Launching) => Answer[];

interface Rule {
  title: string;
  /** What is observed, and what it has to be. */
  check(launch: Launch, temp: TempDirectory): { observed: unknown; expected: unknown };
}

export interface Limit {
  /** The title of a rule that this launcher breaks. */
  rule: string;
  reason: string;
}

const FIXTURE = join(import.meta.dir, "../fixtures/launch.ts");
const base64 = (bytes: string | Uint8Array) => Buffer.from(bytes as string).toString("base64");
const order = (argv: readonly (string | Uint8Array)[], more: Omit<Order, "argv"> = {}): Order => ({
  argv: argv.map(base64),
  ...more,
});
const sh = (script: string, ...words: (string | Uint8Array)[]) => order(["sh", "-c", script, "sh", ...words]);
const sha256 = (bytes: Uint8Array) => new Bun.CryptoHasher("sha256").update(bytes).digest("hex");

/** The beginning of stdout as text; what went wrong instead, where the child did not start. */
function textOf(answer: Answer | undefined): string {
  if (answer?.kind !== "started") return `failed: ${answer?.errno}`;
  return Buffer.from(answer.stdout.head, "base64").toString("latin1");
}

/** SIG32 and SIG33 in a mask of /proc. */
const INTERNAL = 3n << 31n;

const endingOf = (answer: Answer): string =>
  answer.kind === "failed" ? answer.errno : (answer.exit.signal ?? String(answer.exit.code));

const RULES: Rule[] = [
  {
    title: "exit codes 0 to 255 are the child's",
    check(launch) {
      const codes = Array.from({ length: 256 }, (_, code) => code);
      return { observed: launch(codes.map((code) => sh(`exit ${code}`))).map(endingOf), expected: codes.map(String) };
    },
  },
  {
    title: "a signal that ends the child is named, real-time ones by number",
    check(launch) {
      const signals = {
        ...{ 1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 6: "SIGABRT", 9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV" },
        ...{ 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 25: "SIGXFSZ", 31: "SIGSYS", 34: "SIG34", 64: "SIG64" },
      };
      const answers = launch(Object.keys(signals).map((number) => sh(`ulimit -c 0; kill -${number} $$; sleep 5`)));
      return { observed: answers.map(endingOf), expected: Object.values(signals) };
    },
  },
  {
    title: "an exit code above 128 is no signal",
    check(launch) {
      const [answer] = launch([sh("exit 137")]);
      return {
        observed: answer?.kind === "started" && answer.exit,
        expected: { kind: "code", code: 137, signal: null },
      };
    },
  },
  {
    title: "both streams arrive byte for byte: 3 MB of each at the same time",
    check(launch, temp) {
      const contents = [randomBytes(3_000_000, 11), randomBytes(3_000_001, 12)] as const;
      writeFileSync(temp.at("out"), contents[0]);
      writeFileSync(temp.at("err"), contents[1]);
      const [answer] = launch([sh('cat "$1" & cat "$2" >&2; wait', temp.at("out"), temp.at("err"))]);
      const of = (stream: Observed) => [stream.bytes, stream.sha256];
      return {
        observed: answer?.kind === "started" && [of(answer.stdout), of(answer.stderr)],
        expected: contents.map((bytes) => [bytes.length, sha256(bytes)]),
      };
    },
  },
  {
    title: "each stream ends once and the child ends once, with or without output",
    check(launch) {
      const answers = launch([sh(":"), sh("echo out; echo err >&2"), sh("exec >&- 2>&-; exit 3")]);
      return {
        observed: answers.map((answer) => answer.kind === "started" && answer.observed),
        expected: Array(3).fill(["end stderr null", "end stdout null", "exit"]),
      };
    },
  },
  {
    title: "arguments arrive as they are: empty ones, newlines, quotes, globs, text of any script",
    check(launch) {
      const words = ["", " ", "a b", "\n", "a\nb\n", "'", '"', "\\", "*", "$HOME", "-n", "--", "ä漢👍", "\x01\x7f", ""];
      const [answer] = launch([sh(`for word; do printf '%s\\0' "$word"; done`, ...words)]);
      return {
        observed: textOf(answer),
        expected: Buffer.from(words.map((word) => `${word}\0`).join("")).toString("latin1"),
      };
    },
  },
  {
    title: "an argument of 100,000 bytes arrives whole",
    check(launch) {
      const [answer] = launch([sh(`printf %s "$1" | wc -c`, "x".repeat(100_000))]);
      return { observed: textOf(answer).trim(), expected: "100000" };
    },
  },
  {
    title: "an argument that is no UTF-8 arrives byte for byte",
    check(launch) {
      const word = Uint8Array.from([0x61, 0xff, 0xc3, 0x28, 0xed, 0xa0, 0x80, 0x62]);
      const [answer] = launch([sh(`printf %s "$1"`, word)]);
      return { observed: textOf(answer), expected: Buffer.from(word).toString("latin1") };
    },
  },
  {
    title: "what cannot be started is told by its errno",
    check(launch, temp) {
      writeFileSync(temp.at("plain"), "#!/bin/sh\n", { mode: 0o644 });
      writeFileSync(temp.at("orphan"), "#!/no/such/interpreter\n", { mode: 0o755 });
      const programs = [
        "no-such-program",
        "/no/such",
        temp.at("plain"),
        temp.path,
        temp.at("orphan"),
        `${temp.at("plain")}/x`,
      ];
      return {
        observed: launch(programs.map((program) => order([program]))),
        expected: ["ENOENT", "ENOENT", "EACCES", "EACCES", "ENOENT", "ENOTDIR"].map((errno) => ({
          kind: "failed",
          errno,
        })),
      };
    },
  },
  {
    title: "a child starts after one that could not",
    check(launch) {
      const answers = launch([order(["/no/such"]), sh("echo fine"), order(["/no/such"]), sh("exit 4")]);
      return { observed: answers.map(endingOf), expected: ["ENOENT", "0", "ENOENT", "4"] };
    },
  },
  {
    title: "a script without #! runs through sh, by its path and on PATH",
    check(launch, temp) {
      const script = `printf '%s|' "$0" "$@"`;
      mkdirSync(temp.at("bin"));
      writeFileSync(temp.at("bin", "plain-script"), script, { mode: 0o755 });
      const path = temp.at("bin", "plain-script");
      const orders = [order([path, "a b", ""]), order(["plain-script", "c"])];
      const answers = launch(orders, { env: { PATH: `${process.env.PATH}:${temp.at("bin")}` } });
      return { observed: answers.map(textOf), expected: [`${path}|a b||`, `${path}|c|`] };
    },
  },
  {
    title: "the working directory is the caller's, or the one that is given",
    check(launch, temp) {
      mkdirSync(temp.at("größer and\nlonger"));
      const cwd = temp.at("größer and\nlonger");
      const [own, given] = launch([order(["pwd"]), order(["pwd"], { cwd: base64(cwd) })]);
      return {
        observed: [textOf(own), textOf(given)],
        expected: [`${process.cwd()}\n`, Buffer.from(`${cwd}\n`).toString("latin1")],
      };
    },
  },
  {
    title: "a relative program is found from the child's working directory",
    check(launch, temp) {
      mkdirSync(temp.at("sub"));
      writeFileSync(temp.at("sub", "prog"), "#!/bin/sh\necho found\n", { mode: 0o755 });
      return { observed: textOf(launch([order(["./prog"], { cwd: base64(temp.at("sub")) })])[0]), expected: "found\n" };
    },
  },
  {
    title: "a working directory that is not there is told by its errno",
    check(launch, temp) {
      const cwd = base64(temp.at("none"));
      return { observed: launch([order(["true"], { cwd })]), expected: [{ kind: "failed", errno: "ENOENT" }] };
    },
  },
  {
    title: "the environment is the caller's, with what is set and without what is unset",
    check(launch) {
      const print = `printf '%s|' "\${KEPT-none}" "\${CHANGED-none}" "\${GONE-none}" "\${NEW-none}" "\${EMPTY-none}"`;
      const set = { CHANGED: base64("new"), NEW: base64("a=b\nc"), EMPTY: "" };
      const changed = { ...sh(print), set, unset: ["GONE", "NEVER_SET"] };
      const answers = launch([sh(print), changed, sh(print)], { env: { KEPT: "kept", CHANGED: "old", GONE: "there" } });
      const own = "kept|old|there|none|none|";
      return { observed: answers.map(textOf), expected: [own, "kept|new|none|a=b\nc||", own] };
    },
  },
  {
    title: "a variable that is set to what is no UTF-8 arrives byte for byte",
    check(launch) {
      const value = Buffer.from([0x61, 0xff, 0x62]);
      const [answer] = launch([{ ...sh(`printf %s "$ODD"`), set: { ODD: base64(value) } }]);
      return { observed: textOf(answer), expected: value.toString("latin1") };
    },
  },
  {
    title: "stdin is the caller's, a file or nothing",
    check(launch, temp) {
      writeFileSync(temp.at("caller"), "of the caller");
      writeFileSync(temp.at("file"), "of the file");
      const orders = [
        order(["cat"], { stdin: "null" }),
        order(["cat"], { stdinFile: base64(temp.at("file")) }),
        order(["cat"], { stdin: "inherit" }),
      ];
      const answers = launch(orders, { caller: `"$@" <'${temp.at("caller")}'` });
      return { observed: answers.map(textOf), expected: ["", "of the file", "of the caller"] };
    },
  },
  {
    title: "the child's time and memory are told",
    check(launch) {
      const [answer] = launch([sh("i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done")]);
      if (answer?.kind !== "started") return { observed: answer, expected: "a child" };
      const { cpuMs, maxRssBytes } = answer.usage;
      return { observed: [cpuMs > 1, cpuMs < 20_000, (maxRssBytes ?? 0) > 1e5], expected: [true, true, true] };
    },
  },
  {
    title: "descriptors from 3 up are handed on",
    check(launch, temp) {
      writeFileSync(temp.at("seven"), "through seven");
      const [answer] = launch([sh("cat <&7")], { caller: `exec 7<'${temp.at("seven")}'; "$@"` });
      return { observed: textOf(answer), expected: "through seven" };
    },
  },
  {
    title: "the launcher's own descriptors are not handed on",
    check(launch) {
      // 0, 1, 2 and the directory that is listed.
      const answers = launch([sh("exec ls /proc/self/fd"), sh("exec ls /proc/self/fd")]);
      return { observed: answers.map(textOf), expected: Array(2).fill("0\n1\n2\n3\n") };
    },
  },
  {
    title: "a signal that the caller ignores stays ignored",
    check(launch) {
      const [answer] = launch([sh("kill -HUP $$; echo alive")], { caller: `trap '' HUP; "$@"` });
      return { observed: textOf(answer), expected: "alive\n" };
    },
  },
  {
    title: "a signal that the caller does not ignore has its default action, and none is blocked",
    check(launch) {
      const [answer] = launch([sh("grep -E '^Sig(Ign|Blk)' /proc/self/status")]);
      const words = [...textOf(answer).matchAll(/([0-9a-f]{16})/g)].map(([, hex]) => BigInt(`0x${hex}`) & ~INTERNAL);
      return { observed: words, expected: [0n, 0n] };
    },
  },
  {
    title: "the two signals that the C library keeps for itself have their default action",
    check(launch) {
      const answers = launch([32, 33].map((number) => sh(`kill -${number} $$; echo alive`)));
      return { observed: answers.map(endingOf), expected: ["SIG32", "SIG33"] };
    },
  },
  {
    title: "the exit code is known though the caller ignores SIGCHLD",
    check(launch) {
      const python =
        "import os,signal,sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])";
      const answers = launch([sh("exit 7"), sh("kill -9 $$")], { caller: `python3 -c '${python}' "$@"` });
      return { observed: answers.map(endingOf), expected: ["7", "SIGKILL"] };
    },
  },
  {
    title: "stdout and stderr are pipes that the child can open by name",
    check(launch) {
      const script = `for fd in 1 2; do [ -p /dev/fd/$fd ] && printf pipe; done; printf '|again' >/dev/stdout; echo err >/dev/stderr`;
      return { observed: textOf(launch([sh(script)])[0]), expected: "pipepipe|again" };
    },
  },
  {
    title: "a descriptor that the caller has closed is closed in the child",
    check(launch) {
      const script = `for fd in 0 1 2; do [ -e /proc/self/fd/$fd ] && printf 'open%s ' $fd; done`;
      const [noStdin] = launch([{ ...sh(script), stdin: "inherit" }], { caller: `"$@" <&-` });
      const [noStderr] = launch([sh(script)], { caller: `"$@" 2>&-` });
      return { observed: [textOf(noStdin), textOf(noStderr)], expected: ["open1 open2 ", "open0 open1 "] };
    },
  },
  {
    title: "the soft limit of open files is the caller's",
    check(launch) {
      // The launcher's process is a child of the shell that has the limit.
      const [answer] = launch([sh("ulimit -Sn")], { caller: `ulimit -Sn 333; "$@"; :` });
      return { observed: textOf(answer), expected: "333\n" };
    },
  },
];

/** The launcher `name` in a process of its own, with the temporary directory for what is said to it and what it says. */
function launchIn(name: string, temp: TempDirectory): Launch {
  let count = 0;
  return (orders, { caller = `"$@"`, env = {} } = {}) => {
    count += 1;
    const [requests, answers] = [temp.at(`requests-${count}`), temp.at(`answers-${count}`)];
    writeFileSync(requests, JSON.stringify(orders));
    const argv = [process.execPath, FIXTURE, name, requests, answers];
    const child = Bun.spawnSync(["sh", "-c", caller, "sh", ...argv], {
      env: { PATH: process.env.PATH, HOME: temp.path, LANG: "C.UTF-8", ...env },
      stdin: "ignore",
      timeout: 60_000,
    });
    const failure = child.exitCode === 0 ? "" : child.stdout.toString() + child.stderr.toString();
    expect({ exitCode: child.exitCode, failure }).toEqual({ exitCode: 0, failure: "" });
    return JSON.parse(readFileSync(answers, "utf8")) as Answer[];
  };
}

/** Declares the suite for one launcher. Each limit has to be a rule of this suite, and has to be real. */
export function conformance(name: "posix" | "portable", { skip }: { skip: readonly Limit[] }): void {
  describe(`the ${name} launcher`, () => {
    for (const { title, check } of RULES) {
      const limit = skip.find(({ rule }) => rule === title);
      test(limit === undefined ? title : `is limited (${limit.reason}): not ${title}`, () => {
        using temp = new TempDirectory();
        const { observed, expected } = check(launchIn(name, temp), temp);
        if (limit === undefined) expect(observed).toEqual(expected);
        else expect(observed).not.toEqual(expected);
      }, 60_000);
    }

    test("has no limit that is no rule", () => {
      const titles = RULES.map(({ title }) => title);
      expect(skip.filter(({ rule }) => !titles.includes(rule))).toEqual([]);
    });
  });
}
