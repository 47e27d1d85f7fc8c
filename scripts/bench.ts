/**
 * Measures the recorder against baselines in the same run, interleaved, and compares medians: single figures of a busy
 * machine say little. `--short` takes fewer runs; `--slack F` multiplies every bar (CI: 1.5); exit 1 when one is missed.
 */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const ROOT = join(import.meta.dir, "..");
const ASH = join(ROOT, "dist/ash");
const SHORT = process.argv.includes("--short");
const SLACK = Number(process.argv[process.argv.indexOf("--slack") + 1]) || 1;

/** No budget: the streams here are larger than the default one. */
const ENVIRONMENT = { ...process.env, ASH_MAX_OUTPUT_BYTES: "0" };

interface Row {
  name: string;
  unit: string;
  ash: number;
  baseline: string;
  other: number;
  /** ash over the baseline. */
  ratio: number;
  bar: number;
}

/** The least that spawns a child over two pipes and prints a line. */
const MINIMAL = `import { writeSync } from "node:fs";
const child = Bun.spawn(process.argv.slice(2), { stdin: "inherit", stdout: "pipe", stderr: "pipe" });
let bytes = 0;
const pump = async (stream) => { for await (const chunk of stream) bytes += chunk.length; };
await Promise.all([pump(child.stdout), pump(child.stderr), child.exited]);
writeSync(1, \`bytes=\${bytes}\\n\`);
process.exit(child.exitCode ?? 1);
`;

async function main(): Promise<number> {
  if (!existsSync(ASH)) throw new Error("dist/ash is missing: ./scripts/build");
  const work = mkdtempSync(join(tmpdir(), "ash-bench-"));
  try {
    const rows = await measureAll(work);
    for (const row of rows) console.log(formatRow(row));
    writeFileSync(join(ROOT, "dist/bench.json"), `${JSON.stringify({ slack: SLACK, rows }, null, 2)}\n`);
    return rows.some((row) => row.ratio > row.bar * SLACK) ? 1 : 0;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

async function measureAll(work: string): Promise<Row[]> {
  const empty = await compile(work, "empty", "");
  const minimal = await compile(work, "minimal", MINIMAL);
  const project = join(work, "project");
  mkdirSync(join(project, ".git"), { recursive: true });
  const run = (command: string[]) => timed(command, project);
  const rows: Row[] = [];
  const compare = (name: string, runs: number, bar: number, ash: string[], baseline: string, other: string[]) => {
    const [mine, theirs] = interleave(
      runs,
      () => run(ash),
      () => run(other),
    );
    rows.push({ name, unit: "ms", ash: mine, baseline, other: theirs, ratio: mine / theirs, bar });
  };
  const runs = SHORT ? 30 : 200;
  compare("ash true", runs, 1.35, [ASH, "true"], "a minimal spawner", [minimal, "true"]);
  compare("ash true", runs, 2.5, [ASH, "true"], "an empty program", [empty]);
  const gigabyte = ["head", "-c", "1G", "/dev/zero"];
  const sink = join(work, "sink");
  compare("1 GiB", SHORT ? 3 : 7, 1.25, [ASH, ...gigabyte], "tee FILE", [
    "sh",
    "-c",
    `${gigabyte.join(" ")} | tee '${sink}' >/dev/null`,
  ]);
  const tiny = ["python3", "-c", "import os\nfor _ in range(200000): os.write(1, b'x' * 19 + b'\\n')"];
  compare("200,000 writes of 20 bytes", SHORT ? 3 : 7, 1.5, [ASH, ...tiny], "cat >FILE", [
    "sh",
    "-c",
    `"$@" | cat >'${sink}'`,
    "sh",
    ...tiny,
  ]);
  const mebibytes = brokerPeakBytes(project) / 2 ** 20;
  rows.push({
    name: "broker's memory over 1 GiB",
    unit: "MiB",
    ash: mebibytes,
    baseline: "the limit",
    other: 96,
    ratio: mebibytes / 96,
    bar: 1,
  });
  return rows;
}

async function compile(work: string, name: string, source: string): Promise<string> {
  const entry = join(work, `${name}.ts`);
  writeFileSync(entry, source);
  const outfile = join(work, name);
  const built = await Bun.build({
    entrypoints: [entry],
    target: "bun",
    format: "esm",
    minify: true,
    bytecode: true,
    compile: { outfile, autoloadDotenv: false, autoloadBunfig: false },
  });
  if (!built.success) throw new AggregateError(built.logs, `${name} does not compile`);
  return outfile;
}

/** Medians of two measurements taken in turn, after one of each that does not count. */
function interleave(runs: number, a: () => number, b: () => number): [number, number] {
  a();
  b();
  const as: number[] = [];
  const bs: number[] = [];
  for (let i = 0; i < runs; i += 1) {
    as.push(a());
    bs.push(b());
  }
  return [median(as), median(bs)];
}

function median(values: number[]): number {
  return values.sort((a, b) => a - b)[values.length >> 1]!;
}

function timed(command: string[], cwd: string): number {
  const start = Bun.nanoseconds();
  const { exitCode } = Bun.spawnSync(command, {
    cwd,
    stdin: "ignore",
    stdout: "ignore",
    stderr: "inherit",
    env: ENVIRONMENT,
  });
  if (exitCode !== 0) throw new Error(`${command.slice(0, 3).join(" ")} exits with ${exitCode}`);
  return (Bun.nanoseconds() - start) / 1e6;
}

/** The broker's own high-water mark, read by its child at the end: a figure from wait4 would include this process's size. */
function brokerPeakBytes(cwd: string): number {
  const script = "head -c 1G /dev/zero; grep VmHWM /proc/$PPID/status >&2";
  const { stdout } = Bun.spawnSync([ASH, "sh", "-c", script], {
    cwd,
    stdin: "ignore",
    env: { ...ENVIRONMENT, ASH_FMT: "json" },
  });
  const { artifacts } = JSON.parse(stdout.toString()) as { artifacts: string };
  return Number.parseInt(readFileSync(join(artifacts, "stderr.bin"), "utf8").replace("VmHWM:", ""), 10) * 1024;
}

function formatRow(row: Row): string {
  const verdict = row.ratio <= row.bar * SLACK ? "ok" : "MISSED";
  return [
    row.name.padEnd(28),
    `${row.ash.toFixed(1).padStart(8)} ${row.unit.padEnd(4)}`,
    `${row.other.toFixed(1).padStart(8)} ${row.baseline.padEnd(18)}`,
    `x${row.ratio.toFixed(2)} of at most x${(row.bar * SLACK).toFixed(2)}`,
    verdict,
  ].join("  ");
}

process.exit(await main());
