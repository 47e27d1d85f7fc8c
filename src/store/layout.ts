/** Every name and path below a root. The only code that forms them. Paths are bytes, since a cwd need not be UTF-8. */

export const ROOT_NAME = ".agent-shell";
export const LATEST = "latest";

/** The two coordinates of a group: a sanitized executable name and a hash of the normalized argv. */
export interface Group {
  executable: string;
  invocation: string;
}

/** The group of an argv, whose first word counts by its basename. No argument text gets into any path. */
export function groupOf(argv: readonly Uint8Array[]): Group {
  const program = argv[0]!;
  const base = program.subarray(program.lastIndexOf(0x2f) + 1);
  const hash = new Bun.CryptoHasher("sha256");
  hash.update(base);
  hash.update(NUL);
  for (let i = 1; i < argv.length; i += 1) {
    hash.update(argv[i]!);
    hash.update(NUL);
  }
  return {
    executable: sanitize(base),
    invocation: hash.digest("hex").slice(0, 12),
  };
}

/** At most 64 of `A-Za-z0-9._-`, the rest as `_`. A leading dot would hide the group or name its parent. */
function sanitize(name: Uint8Array): string {
  let safe = "";
  for (let i = 0; i < name.length && i < 64; i += 1) {
    const code = name[i]!;
    const keep =
      (code >= 0x61 && code <= 0x7a) ||
      (code >= 0x41 && code <= 0x5a) ||
      (code >= 0x30 && code <= 0x39) ||
      code === 0x5f ||
      code === 0x2d ||
      (code === 0x2e && i > 0);
    safe += keep ? String.fromCharCode(code) : "_";
  }
  return safe === "" ? "_" : safe;
}

const NUL = new Uint8Array(1);

/** Joins names to a directory path given as bytes. */
export function join(directory: Uint8Array, ...names: string[]): Buffer {
  let tail = "";
  for (const name of names) tail += `/${name}`;
  // "/" itself must not become "//name".
  const head = directory.length === 1 && directory[0] === 0x2f ? directory.subarray(1) : directory;
  return Buffer.concat([head, Buffer.from(tail, "utf8")]);
}

export function artifactsPath(root: Uint8Array): Buffer {
  return join(root, "artifacts");
}

/** Relative to the root: the directory of a run. */
export function runPath(root: Uint8Array, group: Group, runId: string): Buffer {
  return join(root, "artifacts", group.executable, group.invocation, runId);
}
