import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inertRuntime } from "../../scripts/runtime.ts";

/** Each of these changes, stops or litters a program compiled with the runtime as published. */
const VARIABLES: [string, string][] = [
  ["BUN_BE_BUN", "1"],
  ["BUN_OPTIONS", "--version"],
  ["BUN_INSPECT", "--version"],
  ["BUN_INSPECT", "ws://127.0.0.1:9/x?wait=1"],
  ["BUN_BYTECODE_DIGEST_OUT", "digests"],
  ["BUN_BYTECODE_ORDER_OUT", "order"],
  ["BUN_CONFIG_MAX_HTTP_REQUESTS", "many"],
  ["BUN_FEATURE_FLAG_NO_ORPHANS", "yes"],
  ["BUN_JSC_unknown", "1"],
  ["BUN_JSC_useJIT", "0"],
  ["BUN_JSC_dumpOptions", "2"],
  ["JSC_SIGNAL_FOR_GC", "0"],
  ["JavaScriptCoreUseJIT", "0"],
  ["MIMALLOC_VERBOSE", "1"],
  ["NODE_CHANNEL_FD", "none"],
  ["SIMDUTF_FORCE_IMPLEMENTATION", "none"],
  ["WTF_numberOfProcessorCores", "none"],
];
/** Built into the machine code there in a form that is not patched. */
const NOT_ON_ARM64 = ["MIMALLOC_VERBOSE"];

const PROGRAM = `
import { dlopen } from "bun:ffi";
const { symbols } = dlopen(["/lib/ld-musl-x86_64.so.1", "/lib/ld-musl-aarch64.so.1"].find((path) =>
  require("node:fs").existsSync(path)) ?? "libc.so.6", { system: { args: ["cstring"], returns: "i32" } });
symbols.system(Buffer.from('printenv "$NAME"\\0'));
`;

describe.skipIf(process.platform !== "linux")("the runtime in the binaries", () => {
  let directory: string;
  let program: string;
  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), "runtime-variables-"));
    writeFileSync(join(directory, "program.ts"), PROGRAM);
    program = join(directory, "program");
    await Bun.build({
      entrypoints: [`${program}.ts`],
      format: "esm",
      bytecode: true,
      compile: { outfile: program, executablePath: inertRuntime(join(import.meta.dir, "../../.bootstrap")) },
    });
  });
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  for (const [name, value] of VARIABLES) {
    test.skipIf(process.arch === "arm64" && NOT_ON_ARM64.includes(name))(
      `ignores ${name}=${value} and hands it on`,
      () => {
        const cwd = mkdtempSync(join(directory, "cwd-"));
        const run = Bun.spawnSync([program], {
          cwd,
          env: { PATH: "/usr/bin:/bin", NAME: name, [name]: value },
          timeout: 10_000,
        });
        expect({
          stdout: run.stdout.toString(),
          stderr: run.stderr.toString(),
          code: run.exitCode,
          files: readdirSync(cwd),
        }).toEqual({ stdout: `${value}\n`, stderr: "", code: 0, files: [] });
      },
    );
  }
});
