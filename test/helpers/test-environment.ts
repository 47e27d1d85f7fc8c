/**
 * A hermetic place for the built binaries: a temporary directory with a project, a home and a cleared environment.
 * Every run that a test leaves in it is checked against the published contracts before the test counts as passed.
 */
import { expect } from "bun:test";
import {
  chmodSync,
  chownSync,
  closeSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  readSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import type { Completion } from "../../src/evidence/completion.ts";
import type { Event } from "../../src/evidence/event.ts";
import { publishedSchemas } from "../../src/evidence/json-schema.ts";
import type { Receipt } from "../../src/evidence/receipt.ts";

export const DIST = resolve(import.meta.dir, "../../dist");
export const ASH = join(DIST, "ash");
export const ASHCTL = join(DIST, "ashctl");
/** An ordinary user, for what root may do and others may not. */
export const NOBODY = 65534;
/** What takes longer is killed, and the test sees the signal. */
const PATIENCE_MS = 25_000;

export interface Options {
  stdin?: string | Uint8Array | number;
  /** Over the environment's own variables; undefined removes one. */
  env?: Record<string, string | undefined>;
  cwd?: string;
  /** Instead of PATIENCE_MS. */
  patienceMs?: number;
}

export interface Outcome {
  stdout: string;
  stderr: string;
  code: number | null;
  signal: string | null;
  stdoutBytes: Buffer;
  stderrBytes: Buffer;
}

export interface Run {
  directory: string;
  receipt: Receipt;
  stdout: Buffer;
  stderr: Buffer;
  events: Event[];
}

/** A test body in an environment of its own. All runs in it must be sound at the end, then it is removed. */
export function inEnvironment(body: (environment: TestEnvironment) => Promise<void> | void): () => Promise<void> {
  return async () => {
    const environment = new TestEnvironment();
    try {
      await body(environment);
      environment.assertAllSound();
    } finally {
      environment.remove();
    }
  };
}

export class TestEnvironment {
  readonly root = realpathSync(mkdtempSync(join(tmpdir(), "ash-e2e-")));
  readonly project = join(this.root, "project");
  readonly home = join(this.root, "home");
  readonly temporary = join(this.root, "tmp");
  readonly variables: Record<string, string>;
  /** Run directories that are meant to have no receipt. */
  readonly unfinished = new Set<string>();

  constructor() {
    mkdirSync(join(this.project, ".git"), { recursive: true });
    for (const directory of [this.home, this.temporary]) mkdirSync(directory, 0o700);
    this.variables = { PATH: SEARCH_PATH, HOME: this.home, TMPDIR: this.temporary, LANG: "C.UTF-8" };
  }

  /** `ash ARGS` in the project. */
  ash(args: readonly string[], options?: Options): Promise<Outcome> {
    return this.spawn([ASH, ...args], options);
  }

  ashctl(args: readonly string[], options?: Options): Promise<Outcome> {
    return this.spawn([ASHCTL, ...args], options);
  }

  /** The completion of `ash ARGS` as a program reads it. */
  async ashJson(args: readonly string[], options: Options = {}): Promise<Completion> {
    const outcome = await this.ash(args, { ...options, env: { ...options.env, ASH_FMT: "json" } });
    return parseDocument("completion", outcome.stdout) as Completion;
  }

  /** A bash script, in which `ash` and `ashctl` are on PATH. Words behind it are `$1`, `$2`, … */
  run(script: string, options?: Options, ...words: string[]): Promise<Outcome> {
    return this.spawn(["bash", "-c", script, "bash", ...words], options);
  }

  /** A Python program, with `sys.argv[1:]`. Python hands on bytes, descriptors and signals as it is told. */
  python(program: string, options?: Options, ...words: string[]): Promise<Outcome> {
    return this.spawn(["python3", "-c", program, ...words], options);
  }

  async spawn(
    argv: readonly string[],
    { stdin, env, cwd = this.project, patienceMs = PATIENCE_MS }: Options = {},
  ): Promise<Outcome> {
    const child = Bun.spawn([...argv], {
      cwd,
      env: { ...this.variables, ...env },
      stdin: typeof stdin === "string" ? Buffer.from(stdin) : (stdin ?? "ignore"),
      stdout: "pipe",
      stderr: "pipe",
      timeout: patienceMs,
      killSignal: "SIGKILL",
    });
    const [stdout, stderr] = await Promise.all([bytesOf(child.stdout), bytesOf(child.stderr), child.exited]);
    const outcome = {
      stdout: stdout.toString("utf8"),
      stderr: stderr.toString("utf8"),
      code: child.signalCode === null ? child.exitCode : null,
      signal: child.signalCode === null ? null : String(child.signalCode),
    };
    // Not enumerable, so that a failed expectation prints the text and not its bytes as well.
    return Object.defineProperties(outcome as Outcome, {
      stdoutBytes: { value: stdout },
      stderrBytes: { value: stderr },
    });
  }

  /** Writes a file in the project; returns its path. */
  write(name: string, content: string | Uint8Array, mode = 0o644): string {
    const path = resolve(this.project, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content);
    chmodSync(path, mode);
    return path;
  }

  /** Gives everything here to an ordinary user, and lets it through to it. */
  giveToNobody(): void {
    for (const path of [this.root, this.project, join(this.project, ".git"), this.home, this.temporary]) {
      chmodSync(path, 0o755);
      if (process.getuid?.() === 0) chownSync(path, NOBODY, NOBODY);
    }
  }

  /** `argv` as an ordinary user, whoever runs the tests. */
  asNobody(argv: readonly string[], options?: Options): Promise<Outcome> {
    const drop = `import os,sys
if os.getuid() == 0: os.setgroups([]); os.setgid(${NOBODY}); os.setuid(${NOBODY})
os.execvp(sys.argv[1], sys.argv[1:])`;
    return this.python(drop, options, ...argv);
  }

  /** Every run directory below this environment's directory, oldest first, in whatever store. */
  runDirectories(): string[] {
    const found: string[] = [];
    const visit = (directory: string) => {
      for (const entry of readdirSync(directory, { withFileTypes: true })) {
        // No store is kept below a name that is not UTF-8.
        if (!entry.isDirectory() || entry.name.includes("\uFFFD")) continue;
        const path = join(directory, entry.name);
        if (entry.name.startsWith("run_")) found.push(path);
        else visit(path);
      }
    };
    visit(this.root);
    return found.sort((a, b) => (runIdOf(a) < runIdOf(b) ? -1 : 1));
  }

  runs(): Run[] {
    return this.runDirectories().map(readRun);
  }

  /** The newest run. */
  lastRun(): Run {
    const directory = this.runDirectories().at(-1);
    if (directory === undefined) throw new Error("no run was recorded");
    return readRun(directory);
  }

  assertAllSound(): void {
    for (const directory of this.runDirectories()) {
      if (this.unfinished.has(directory)) expect(existsSync(join(directory, "receipt.json"))).toBe(false);
      else assertSound(directory);
    }
  }

  remove(): void {
    try {
      rmSync(this.root, { recursive: true, force: true });
    } catch {
      // A test took away the right to write, and we are not root.
      Bun.spawnSync(["chmod", "-R", "u+rwX", this.root]);
      rmSync(this.root, { recursive: true, force: true });
    }
  }
}

/**
 * For a Python child in the project: `say(fd, bytes)` returns when the bytes have arrived in its run's file, so that
 * what is said next is observed later, however slow the machine is.
 */
export const SAY = `import glob,os,time
run = max(glob.glob('.agent-shell/artifacts/*/*/run_*'), key=os.path.basename)
files, said = ['', f'{run}/stdout.bin', f'{run}/stderr.bin'], [0, 0, 0]
def say(fd, data):
    os.write(fd, data)
    said[fd] += len(data)
    while os.path.getsize(files[fd]) < said[fd]: time.sleep(.0005)
`;

const runIdOf = (directory: string) => directory.slice(directory.lastIndexOf("/") + 1);

async function bytesOf(stream: ReadableStream<Uint8Array>): Promise<Buffer> {
  return Buffer.from(await new Response(stream).arrayBuffer());
}

export function readRun(directory: string): Run {
  const file = (name: string) => readFileSync(join(directory, name));
  return {
    directory,
    receipt: JSON.parse(file("receipt.json").toString("utf8")) as Receipt,
    stdout: file("stdout.bin"),
    stderr: file("stderr.bin"),
    events: readJournal(directory),
  };
}

/** Whole lines only: the last one of a journal that is not final may be torn. */
export function readJournal(directory: string): Event[] {
  const lines = readFileSync(join(directory, "events.jsonl"), "utf8").split("\n");
  return lines.slice(0, -1).map((line) => JSON.parse(line) as Event);
}

const validators = new Map<string, ValidateFunction>();

/** Parses one document, and fails the test unless the published schema `name` allows exactly it. */
export function parseDocument(name: string, text: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Error(`no ${name} document: ${JSON.stringify(text.slice(0, 2000))}`);
  }
  assertDocument(name, value);
  return value;
}

export function assertDocument(name: string, value: unknown): void {
  let validate = validators.get(name);
  if (validate === undefined) {
    validate = compileSchema(publishedSchemas()[name] as object);
    validators.set(name, validate);
  }
  if (validate(value)) return;
  throw new Error(`not a valid ${name}: ${JSON.stringify(validate.errors)}\n${JSON.stringify(value).slice(0, 2000)}`);
}

export function compileSchema(schema: object): ValidateFunction {
  const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;
  const base64 = /^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
  return new Ajv2020({ strict: false, formats: { "date-time": time, base64 } }).compile(schema);
}

/** Fails the test unless the directory holds a final run whose files agree with each other and with the contracts. */
export function assertSound(directory: string): void {
  if (!existsSync(join(directory, "receipt.json"))) throw new Error(`${directory} has no receipt`);
  const run = readRun(directory);
  const { receipt, events } = run;
  assertDocument("receipt", receipt);
  for (const event of events) assertDocument("event", event);
  assertModes(directory, receipt);
  assertPlace(directory, receipt);
  assertStreams(run);
  assertOrder(run);
}

/** Written by the drainer for as long as a descendant holds a stream, after the run is final. */
const LATE = /^(stdout\.late\.bin|stderr\.late\.bin|late\.jsonl)$/;

function assertModes(directory: string, receipt: Receipt): void {
  const stdin = receipt.streams.stdin === null ? [] : ["stdin.bin"];
  const files = readdirSync(directory).filter((name) => !LATE.test(name));
  const changes = receipt.changes.observed ? ["changes.json"] : [];
  expect(files.sort()).toEqual([...changes, "events.jsonl", "receipt.json", "stderr.bin", ...stdin, "stdout.bin"]);
  for (let level = directory, i = 0; i < 4; i += 1, level = dirname(level)) {
    expect([level, modeOf(level)]).toEqual([level, 0o700]);
  }
  for (const name of readdirSync(directory)) {
    const path = join(directory, name);
    const mode = LATE.test(name) ? modeOf(path) & ~0o200 : modeOf(path);
    expect([path, mode, statSync(path).uid]).toEqual([path, 0o400, statSync(directory).uid]);
  }
}

const modeOf = (path: string) => lstatSync(path).mode & 0o7777;

/** The receipt is that of its directory, and `latest` names a final run. */
function assertPlace(directory: string, receipt: Receipt): void {
  const group = dirname(directory);
  expect(receipt.run_id).toBe(runIdOf(directory));
  expect(directory.endsWith(`/artifacts/${receipt.group}/${receipt.run_id}`)).toBe(true);
  const latest = readlinkSync(join(group, "latest"));
  expect(latest).toMatch(/^run_\d{8}T\d{6}\.\d{6}Z-[0-9a-f]{8}$/);
  expect(existsSync(join(group, latest, "receipt.json"))).toBe(true);
  const rootFiles = readdirSync(resolve(directory, "../../../..")).sort();
  expect(rootFiles).toEqual([".gitignore", "CACHEDIR.TAG", "artifacts"]);
}

function assertStreams({ directory, receipt, events }: Run): void {
  let logical = 0;
  for (const stream of ["stdin", "stdout", "stderr"] as const) {
    const record = receipt.streams[stream];
    if (record === null) continue;
    const bytes = readFileSync(join(directory, `${stream}.bin`));
    let feeds = 0;
    for (let i = 0; i < bytes.length; i += 1) if (bytes[i] === 0x0a) feeds += 1;
    const lines = feeds + (bytes.length > 0 && bytes.at(-1) !== 0x0a ? 1 : 0);
    const sha256 = new Bun.CryptoHasher("sha256").update(bytes).digest("hex");
    expect({ stream, ...record }).toMatchObject({ stream, bytes: bytes.length, sha256, lines });
    let offset = 0;
    for (const event of events) {
      if (event.type !== "chunk" || event.stream !== stream) continue;
      expect([stream, event.offset]).toEqual([stream, offset]);
      offset += event.bytes;
    }
    expect([stream, offset]).toEqual([stream, bytes.length]);
    const ends = events.filter((event) => event.type === "stream_end" && event.stream === stream);
    if (stream === "stdin")
      expect(events).toContainEqual(expect.objectContaining({ type: "stdin_end", bytes: bytes.length }));
    else if (record.ended === "closed") expect(ends).toEqual([]);
    else expect(ends).toMatchObject([{ reason: record.ended, bytes: bytes.length }]);
    logical += bytes.length;
  }
  expect(receipt.storage).toMatchObject({ logical_bytes: logical, new_bytes: logical, reused_bytes: 0 });
}

/** One start first, one end last, the child's exit between them, and time never runs backwards. */
function assertOrder({ receipt, events }: Run): void {
  expect(events[0]).toMatchObject({ type: "run_started", elapsed_ns: 0, pid: receipt.pid });
  expect(events.at(-1)).toMatchObject({ type: "run_finalized", state: receipt.state });
  expect(events.filter((event) => event.type === "run_started" || event.type === "run_finalized")).toHaveLength(2);
  const exits = events.filter((event) => event.type === "child_exited");
  if (receipt.exit.kind === "none") expect(exits).toEqual([]);
  else expect(exits).toMatchObject([{ ...receipt.exit }]);
  // Near the journal's bound a merged chunk stands behind events that came while it grew.
  for (const part of [events.filter(({ type }) => type !== "chunk"), events.filter(({ type }) => type === "chunk")]) {
    for (let i = 1; i < part.length; i += 1) {
      if (part[i]!.type === "chunk" && "chunks" in part[i]!) continue;
      expect(part[i]!.elapsed_ns).toBeGreaterThanOrEqual(part[i - 1]!.elapsed_ns);
    }
  }
}

/** Where programs are found: ours first, then the interpreter itself in place of a version manager's script. */
const SEARCH_PATH = [DIST, directoryOfPython(), "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"].join(
  ":",
);

function directoryOfPython(): string {
  for (const directory of (process.env.PATH ?? "").split(":")) {
    const path = join(directory, "python3");
    if (existsSync(path) && !isScript(path)) return directory;
  }
  const shim = Bun.spawnSync(["python3", "-c", "import sys; print(sys.executable)"]);
  return dirname(shim.stdout.toString().trim());
}

function isScript(path: string): boolean {
  const head = Buffer.alloc(2);
  const fd = openSync(path, "r");
  readSync(fd, head);
  closeSync(fd);
  return head.toString() === "#!";
}

/** Whether a program that a test cannot do without is missing; says so once. */
export function isMissing(program: string): boolean {
  const missing = Bun.which(program, { PATH: SEARCH_PATH }) === null;
  if (missing) console.error(`skipped: ${program} is not installed`);
  return missing;
}
