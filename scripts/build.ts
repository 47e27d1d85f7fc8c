/** Builds dist/ash and dist/ashctl, one image under two names, for this machine. */
import { copyFileSync, linkSync, mkdirSync, renameSync, rmSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { inertRuntime } from "./runtime.ts";

const root = join(import.meta.dir, "..");
const dist = join(root, "dist");
const scratch = join(root, ".bootstrap", `build.${process.pid}`);
const startedAt = new Date();

function linkOrCopy(from: string, to: string): void {
  try {
    linkSync(from, to);
  } catch {
    // Whatever the file system has against hard links, a copy is as good.
    copyFileSync(from, to);
  }
}

mkdirSync(dist, { recursive: true });
mkdirSync(scratch, { recursive: true });
try {
  const ash = join(scratch, "ash");
  const ashctl = join(scratch, "ashctl");
  const result = await Bun.build({
    entrypoints: [join(root, "src/main.ts")],
    format: "esm",
    minify: true,
    bytecode: true,
    splitting: true,
    compile: {
      outfile: ash,
      // A signed Mach-O image does not survive a changed byte, so only Linux gets the inert runtime.
      ...(process.platform === "linux" && { executablePath: inertRuntime(join(root, ".bootstrap")) }),
      // A start runs most code once: compiling it costs 0.5 ms. Whoever stays longer calls Bun.unsafe.setJITPolicy(1).
      jitPolicy: 100,
      autoloadDotenv: false,
      autoloadBunfig: false,
      autoloadTsconfig: false,
      autoloadPackageJson: false,
    },
  });
  for (const message of result.logs) console.error(message);
  // Source saved while this build ran is newer than the binary, so the next call of a wrapper builds again.
  utimesSync(ash, startedAt, startedAt);
  linkOrCopy(ash, ashctl);
  // Renames: a binary that runs keeps its file, and nobody sees half of one.
  renameSync(ashctl, join(dist, "ashctl"));
  renameSync(ash, join(dist, "ash"));
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
