/**
 * The Bun runtime that goes into the binaries, with its own environment variables made inert.
 *
 * A compiled binary obeys BUN_OPTIONS, BUN_BE_BUN, BUN_INSPECT, BUN_JSC_*, MIMALLOC_* and more before any of our code
 * runs. Here a byte of each name becomes 0x01: the runtime looks for names that nobody sets, and the caller's variables
 * reach the child as they are. Bun's executable is patched, not the finished image, so that the same names in our own
 * source stay as written.
 */
import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

interface Patch {
  name: string;
  find: RegExp;
  /** Offset of the byte in a match. */
  at: number;
  /** How many matches there must be. */
  atLeast: number;
  /** The only processor whose image has it; all when left out. */
  arch?: string;
}

const INERT = 0x01;

function pattern(name: string, source: string, more: Partial<Patch> = {}): Patch {
  return { name, find: new RegExp(source, "g"), at: 0, atLeast: 1, ...more };
}

/** A NUL-terminated string of its own in the read-only data. */
function cString(name: string, more: Partial<Patch> = {}): Patch {
  return pattern(name, `(?<=\\0)${name}(?=\\0)`, more);
}

/** Machine code in hexadecimal, "?" for any byte. */
function code(name: string, hex: string, more: Partial<Patch>): Patch {
  return pattern(
    name,
    hex.replace(/\S+ ?/g, (byte) => (byte[0] === "?" ? "[^]" : `\\x${byte.trim()}`)),
    more,
  );
}

const PATCHES: Patch[] = [
  cString("BUN_[A-Z0-9_]+", { atLeast: 80 }),
  cString("NODE_CHANNEL_FD"),
  cString("NODE_CHANNEL_SERIALIZATION_MODE"),
  cString("JSC_SIGNAL_FOR_GC"),
  cString("JavaScriptCoreUseJIT"),
  cString("WTF_numberOfProcessorCores"),
  cString("WebKitMallocForceEnabled"),
  cString("SIMDUTF_FORCE_IMPLEMENTATION", { arch: "x64" }),
  // A slice of a pool without separators, known by its neighbour.
  pattern("BUN_CONFIG_MAX_HTTP_REQUESTS", "(?<=https:http:)BUN_CONFIG_MAX_HTTP_REQUESTS"),
  // The prefix of MIMALLOC_* is an immediate operand, with its "_" in the instruction after it.
  pattern("mimalloc_", "mimalloc(?=[^]{0,8}_\\0)", { arch: "x64" }),
  // The prefix BUN_JSC_ is compared byte by byte: cmpb $'B', (p); jne; cmpb $'U', 1(p); jne; …
  code("BUN_JSC_", "42 75 ? 41 80 7e 01 55 75 ? 41 80 7e 02 4e 75 ? 41 80 7e 03 5f 75 ? 41 80 7e 04 4a", {
    arch: "x64",
  }),
  // The same as cmp w8…w15, #'B'; b.ne; ldrb; cmp …, #'U'; …: the changed byte makes it #'@'.
  code("BUN_JSC_", "? 09 01 71 ? ? ? ? ? ? ? ? ? 55 01 71 ? ? ? ? ? ? ? ? ? 39 01 71 ? ? ? ? ? ? ? ? ? 7d 01 71", {
    at: 1,
    arch: "arm64",
  }),
];

/** Patches the image in place; throws when a name is not where it is expected, as after a change of Bun's version. */
export function makeInert(image: Buffer, arch: string): void {
  const text = image.toString("latin1");
  for (const { name, find, at, atLeast, arch: only } of PATCHES) {
    if (only !== undefined && only !== arch) continue;
    const places = [...text.matchAll(find)].map((match) => match.index + at);
    if (places.length < atLeast) throw new Error(`Bun ${Bun.version}: ${name} is not where it was in the runtime`);
    for (const place of places) image[place] = INERT;
  }
}

/** Returns the path of the patched runtime, made once for each version of Bun and of this file. */
export function inertRuntime(cacheDirectory: string): string {
  const recipe = Bun.hash(readFileSync(import.meta.path)).toString(36);
  const path = join(cacheDirectory, `runtime-${Bun.version}-${process.platform}-${process.arch}-${recipe}`);
  if (existsSync(path)) return path;
  mkdirSync(cacheDirectory, { recursive: true });
  const image = readFileSync(process.execPath);
  makeInert(image, process.arch);
  const temporary = `${path}.${process.pid}`;
  try {
    writeFileSync(temporary, image);
    chmodSync(temporary, 0o755);
    renameSync(temporary, path);
  } finally {
    rmSync(temporary, { force: true });
  }
  return path;
}
