/**
 * One look at the tracked paths. First every entry is listed with its size, time and mode; the time that is left goes
 * into contents. What could not be seen is counted with its reason. No symlink is followed.
 */
import { type BigIntStats, fstatSync, lstatSync, readdirSync, readlinkSync, readSync, realpathSync } from "node:fs";
import { monotonicNs, wallMs } from "../base/clock.ts";
import type { TrackedKind } from "../evidence/changes.ts";
import { ROOT_NAME } from "../store/layout.ts";
import { type IgnoreChain, isIgnored, parseIgnoreRules } from "./ignore-rules.ts";
import {
  attempt,
  detailsOf,
  identityOf,
  isGone,
  NOT_REGULAR,
  readRegularFile,
  toPath,
  toText,
  typeOf,
} from "./tree-file.ts";
import {
  type DirectoryRecord,
  entryKey,
  parentPath,
  SELF,
  TRACK_LIMITS,
  type TrackOptions,
  type TreeEntry,
  type TreeSnapshot,
} from "./tree-snapshot.ts";

const SLASH = 0x2f;
const MAX_PROBLEMS = 100;
const MAX_RULES_BYTES = 2 ** 20;
/** Of directories above a tracked path that are searched for the top of its repository. */
const MAX_LEVELS = 64;
const CHUNK_BYTES = 256 * 1024;
const CHANGING = "it changed while it was read";

interface Chains {
  now: IgnoreChain | null;
  /** By the rules before the run. What they ignored was not observed then, so it cannot be told to be new. */
  before: IgnoreChain | null;
}

export class TreeWalk {
  private readonly snapshot: TreeSnapshot;
  private readonly before: TreeSnapshot | null;
  private readonly nowNs: () => number;
  private readonly startNs: number;
  /** Resolved tracked paths, each with a slash at its end. */
  private readonly prefixes: string[] = [];
  /** Identities of our stores, and of the directories that were entered. */
  private readonly stores = new Set<string>();
  private readonly entered = new Set<string>();
  private readonly buffer = Buffer.allocUnsafe(CHUNK_BYTES);

  constructor(paths: readonly Uint8Array[], { cwd, stores, before, limits, nowNs }: TrackOptions) {
    this.nowNs = nowNs ?? monotonicNs;
    this.startNs = this.nowNs();
    this.before = before ?? null;
    this.snapshot = {
      paths: paths.map((path) => absolutePath(path, cwd)),
      limits: limits ?? TRACK_LIMITS,
      startedMs: wallMs(),
      durationNs: 0,
      kinds: [],
      entries: new Map(),
      directories: new Map(),
      unknown: new Set(),
      bounds: [],
      ignored: 0,
      problems: [],
      problemCount: 0,
    };
    for (const store of stores) {
      const stat = attempt(() => lstatSync(Buffer.from(store), { bigint: true }));
      if (typeof stat !== "string") this.stores.add(identityOf(stat));
    }
  }

  run(): TreeSnapshot {
    for (let root = 0; root < this.snapshot.paths.length; root += 1) this.snapshot.kinds.push(this.listRoot(root));
    if (this.before !== null) this.lookAgain(this.before);
    this.hashContents();
    this.snapshot.durationNs = this.nowNs() - this.startNs;
    return this.snapshot;
  }

  private listRoot(root: number): TrackedKind {
    const path = this.snapshot.paths[root]!;
    const real = attempt(() => realpathSync(path, { encoding: "buffer" }));
    const resolved = toText(typeof real === "string" ? path : real);
    this.prefixes.push(resolved.endsWith("/") ? resolved : `${resolved}/`);
    const stat = this.stat(root, SELF);
    if (typeof stat === "string") {
      if (isGone(stat)) return "missing";
      this.report(root, SELF, stat);
      return "unknown";
    }
    if (`${toText(path)}/${resolved}`.split("/").includes(ROOT_NAME) || this.stores.has(identityOf(stat))) {
      this.report(root, SELF, "a store of ours is not observed");
      return "unknown";
    }
    if (!stat.isDirectory()) {
      this.addEntry(root, SELF, stat);
      return typeOf(stat);
    }
    if (!this.isStopped() && this.enter(stat)) {
      const outer = this.outerRules(root, resolved);
      this.listDirectory(root, SELF, { now: outer, before: outer });
    }
    return "directory";
  }

  private listDirectory(root: number, directory: string, outer: Chains): void {
    const record: DirectoryRecord = { rules: null, isListed: false };
    this.snapshot.directories.set(entryKey(root, directory), record);
    const names = attempt(() => readdirSync(this.pathOf(root, directory), { encoding: "latin1" }));
    if (typeof names === "string") {
      this.report(root, directory, names);
      return;
    }
    names.sort();
    const within = directory === SELF ? "" : `${directory}/`;
    if (names.includes(".gitignore")) {
      record.rules = this.readRules(this.pathOf(root, `${within}.gitignore`), root, `${within}.gitignore`);
    }
    const chains = this.extend(outer, root, directory, record.rules, this.prefixes[root]!.length + within.length);
    let isWhole = true;
    for (const name of names) {
      if (this.isStopped()) return;
      const path = within + name;
      if (name === ROOT_NAME) continue;
      const stat = this.stat(root, path);
      if (typeof stat === "string") {
        this.report(root, path, stat);
        if (!isGone(stat)) isWhole = false;
      } else if (stat.isDirectory()) {
        if (name === ".git" || this.leavesOut(chains, root, path, true)) continue;
        if (this.enter(stat)) this.listDirectory(root, path, chains);
      } else if (!this.leavesOut(chains, root, path, false) && !this.addEntry(root, path, stat)) return;
    }
    record.isListed = isWhole;
  }

  private extend({ now, before }: Chains, root: number, directory: string, text: string | null, base: number): Chains {
    const add = (outer: IgnoreChain | null, rulesText: string | null): IgnoreChain | null => {
      const rules = rulesText === null ? [] : parseIgnoreRules(rulesText);
      return rules.length === 0 ? outer : { rules, base, outer };
    };
    const known = this.before?.directories.get(entryKey(root, directory));
    const inner = add(now, text);
    if (now === before && (known === undefined || known.rules === text)) return { now: inner, before: inner };
    return { now: inner, before: add(before, known === undefined ? text : known.rules) };
  }

  private leavesOut({ now, before }: Chains, root: number, path: string, isDirectory: boolean): boolean {
    if (now === null && before === null) return false;
    const full = this.prefixes[root]! + path;
    if (!isIgnored(now, full, isDirectory) && (now === before || !isIgnored(before, full, isDirectory))) return false;
    this.snapshot.ignored += 1;
    return true;
  }

  /** The rules of the repository above a tracked directory; null where they ignore that directory itself: it was asked for. */
  private outerRules(root: number, resolved: string): IgnoreChain | null {
    const above: string[] = [];
    for (let directory = resolved; ; directory = directory.slice(0, directory.lastIndexOf("/"))) {
      const marker = attempt(() => lstatSync(toPath(`${directory === "/" ? "" : directory}/.git`)));
      if (typeof marker !== "string") break;
      if (directory === "/" || directory === "" || above.length === MAX_LEVELS) return null;
      above.push(directory);
    }
    let chain: IgnoreChain | null = null;
    for (const child of above.reverse()) {
      const base = child.lastIndexOf("/") + 1;
      const text = this.readRules(toPath(`${child.slice(0, base)}.gitignore`), root, SELF);
      if (text !== null) chain = { rules: parseIgnoreRules(text), base, outer: chain };
      if (isIgnored(chain, child, true)) return null;
    }
    return chain;
  }

  /** A .gitignore that is a symlink counts as none, as it does for git. */
  private readRules(path: Buffer, root: number, place: string): string | null {
    const text = readRegularFile(path, (fd, stat) => {
      if (stat.size > MAX_RULES_BYTES) return null;
      const whole = Buffer.alloc(Number(stat.size));
      let at = 0;
      for (let count = -1; at < whole.length && count !== 0; at += count) {
        count = readSync(fd, whole, at, whole.length - at, null);
      }
      return { text: toText(whole.subarray(0, at)) };
    });
    if (text === null) this.report(root, place, ".gitignore has more than 1 MiB and is not honoured");
    else if (typeof text !== "string") return text.text;
    else if (!isGone(text) && text !== "ELOOP" && text !== NOT_REGULAR) this.report(root, place, `.gitignore: ${text}`);
    return null;
  }

  /** Settles what the walk did not meet: it is gone, or there after all, or nobody knows. */
  private lookAgain(before: TreeSnapshot): void {
    const { entries, unknown } = this.snapshot;
    const directories = new Map<string, "there" | "gone" | "unknown">();
    for (const [key, { root, path }] of before.entries) {
      if (entries.has(key)) continue;
      const parent = path === SELF ? "there" : this.findDirectory(root, parentPath(path), directories);
      if (parent === "gone") continue;
      const stat = parent === "unknown" || this.isLate() ? null : this.stat(root, path);
      if (stat === null) unknown.add(key);
      else if (typeof stat !== "string") {
        if (!stat.isDirectory()) this.putEntry(root, path, stat);
      } else if (!isGone(stat)) {
        this.report(root, path, stat);
        unknown.add(key);
      }
    }
  }

  /** No path is looked up through what has become a symlink. */
  private findDirectory(
    root: number,
    path: string,
    found: Map<string, "there" | "gone" | "unknown">,
  ): "there" | "gone" | "unknown" {
    const key = entryKey(root, path);
    let answer = found.get(key);
    if (answer !== undefined) return answer;
    if (path === SELF) {
      const kind = this.snapshot.kinds[root];
      answer = kind === "directory" ? "there" : kind === "unknown" ? "unknown" : "gone";
    } else {
      answer = this.findDirectory(root, parentPath(path), found);
      if (answer === "there") {
        const stat = this.stat(root, path);
        if (typeof stat !== "string") answer = stat.isDirectory() ? "there" : "gone";
        else answer = isGone(stat) ? "gone" : "unknown";
      }
    }
    found.set(key, answer);
    return answer;
  }

  /** False when the bound is reached. */
  private addEntry(root: number, path: string, stat: BigIntStats): boolean {
    const { entries, limits } = this.snapshot;
    if (entries.size >= limits.files) {
      this.reach("files");
      return false;
    }
    this.putEntry(root, path, stat);
    return true;
  }

  private putEntry(root: number, path: string, stat: BigIntStats): void {
    const entry: TreeEntry = { root, path, type: typeOf(stat), ...detailsOf(stat), sha256: null };
    this.snapshot.entries.set(entryKey(root, path), entry);
    if (entry.type !== "symlink") return;
    const target = attempt(() => readlinkSync(this.pathOf(root, path), { encoding: "buffer" }));
    if (typeof target === "string") this.report(root, path, target);
    else entry.sha256 = new Bun.CryptoHasher("sha256").update(target).digest("hex");
  }

  /** Both times, since a program can set a file's size and time back. What looks changed goes first. */
  private hashContents(): void {
    const { entries, limits } = this.snapshot;
    const files = [...entries.values()].filter(({ type, size }) => type === "file" && size <= limits.hashBytes);
    const looksSame = (file: TreeEntry): boolean => {
      const old = this.before?.entries.get(entryKey(file.root, file.path));
      return old !== undefined && old.size === file.size && old.mtimeNs === file.mtimeNs;
    };
    const first = this.before === null ? files : files.filter((file) => !looksSame(file));
    const rest = this.before === null ? [] : files.filter(looksSame);
    for (const file of [...first, ...rest]) {
      if (this.isLate()) return;
      let outcome = this.hashFile(file);
      if (outcome === CHANGING) outcome = this.hashFile(file);
      if (outcome !== null) this.report(file.root, file.path, outcome);
    }
  }

  /** Sets the digest, and with it the state that it belongs to. The reason why there is none; null also when time is over. */
  private hashFile(file: TreeEntry): string | null {
    const outcome = readRegularFile(this.pathOf(file.root, file.path), (fd, stat) => {
      Object.assign(file, detailsOf(stat));
      if (file.size > this.snapshot.limits.hashBytes) return { reason: null };
      const hash = new Bun.CryptoHasher("sha256");
      // Never beyond its size: some files of /proc and /sys never end.
      for (let left = file.size; left > 0; ) {
        const count = readSync(fd, this.buffer, 0, Math.min(left, CHUNK_BYTES), null);
        if (count === 0) return { reason: CHANGING };
        hash.update(this.buffer.subarray(0, count));
        left -= count;
        if (left > 0 && this.isLate()) return { reason: null };
      }
      const after = fstatSync(fd, { bigint: true });
      if (after.size !== stat.size || after.mtimeNs !== stat.mtimeNs) return { reason: CHANGING };
      file.sha256 = hash.digest("hex");
      return { reason: null };
    });
    return typeof outcome === "string" ? outcome : outcome.reason;
  }

  private pathOf(root: number, path: string): Buffer {
    const top = this.snapshot.paths[root]!;
    return path === SELF ? top : Buffer.concat([top, Buffer.from(`/${path}`, "latin1")]);
  }

  private stat(root: number, path: string): BigIntStats | string {
    return attempt(() => lstatSync(this.pathOf(root, path), { bigint: true }));
  }

  /** True the first time a directory is met, unless it is a store of ours. */
  private enter(stat: BigIntStats): boolean {
    const identity = identityOf(stat);
    if (this.stores.has(identity) || this.entered.has(identity)) return false;
    this.entered.add(identity);
    return true;
  }

  private isStopped(): boolean {
    return this.snapshot.bounds.length > 0 || this.isLate();
  }

  private isLate(): boolean {
    if (this.nowNs() - this.startNs < this.snapshot.limits.ms * 1e6) return false;
    this.reach("time");
    return true;
  }

  private reach(bound: "files" | "time"): void {
    if (!this.snapshot.bounds.includes(bound)) this.snapshot.bounds.push(bound);
  }

  private report(root: number, path: string, reason: string): void {
    this.snapshot.problemCount += 1;
    if (this.snapshot.problems.length < MAX_PROBLEMS) this.snapshot.problems.push({ root, path, reason });
  }
}

function absolutePath(path: Uint8Array, cwd: Uint8Array): Buffer {
  if (path[0] === SLASH) return Buffer.from(path);
  return toText(path) === "." ? Buffer.from(cwd) : toPath(`${toText(cwd)}/${toText(path)}`);
}
