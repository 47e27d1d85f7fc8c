/**
 * The directory of one run: created before the child starts, published by one rename when everything in it is final.
 * docs/store.md has the invariants and the write order that these functions keep.
 */
import { isErrno } from "../base/errors.ts";
import {
  closeFile,
  createFile,
  cutToSize,
  freeBytes,
  linkState,
  makeDirectories,
  makeDirectory,
  makeReadOnly,
  makeSymlink,
  ownUserId,
  pathExists,
  readSymlink,
  readWhole,
  removeEmptyDirectory,
  removeLeftover,
  renameFile,
  reserveSpace,
  syncDirectory,
  syncFile,
  writeWhole,
} from "../base/files.ts";
import type { ChangesFile } from "../evidence/changes.ts";
import { FILES } from "../evidence/names.ts";
import { artifactsPath, type Group, join, LATEST, runPath } from "./layout.ts";
import type { RootChoice } from "./root.ts";
import { isRunId, suffixOf } from "./run-id.ts";

export interface RunDirectory {
  root: Buffer;
  path: Buffer;
  group: Group;
  runId: string;
  /** The group's last finalized run when this one was created. */
  previousId: string | null;
  stdout: number;
  stderr: number;
  events: number;
  /** Room for journal and receipt is reserved behind the journal. */
  hasReserve: boolean;
}

const RESERVE_BYTES = 64 * 1024;
/** Below this a file system may be full before the next look: a second at the speed of memory. */
const LOW_BYTES = 2 ** 30;

/** Creates the run's directory and its three growing files. Throws the system's error when the root cannot take it. */
export function createRunDirectory(choice: RootChoice, group: Group, runId: string): RunDirectory {
  const { root } = choice;
  if (choice.reason === "temporary") claimTemporaryPlace(root);
  const path = runPath(root, group, runId);
  prepareDirectories(root, group);
  makeDirectory(path, 0o700);
  const opened: number[] = [];
  try {
    for (const name of [FILES.stdout, FILES.stderr, FILES.events]) opened.push(createFile(join(path, name), 0o600));
    const [stdout, stderr, events] = opened as [number, number, number];
    const run = {
      root,
      path,
      group,
      runId,
      previousId: latestOf(root, group),
      stdout,
      stderr,
      events,
      hasReserve: false,
    };
    keepRoom(run);
    return run;
  } catch (error) {
    // A full disk, or no descriptor left: nothing of the attempt stays behind.
    for (const fd of opened) closeFile(fd);
    for (const name of [FILES.stdout, FILES.stderr, FILES.events]) removeLeftover(join(path, name));
    removeEmptyDirectory(path);
    throw error;
  }
}

/** Makes what is missing above the run. Nothing below the root may be a symlink: one is refused, not followed. */
function prepareDirectories(root: Buffer, group: Group): void {
  const levels = [
    artifactsPath(root),
    join(root, "artifacts", group.executable),
    join(root, "artifacts", group.executable, group.invocation),
  ];
  for (const path of levels) {
    const state = linkState(path);
    if (state === null) {
      if (path === levels[0]) prepareRoot(root);
      makeSharedDirectory(path);
    } else if (state.kind !== "directory") {
      throw Object.assign(new Error("not a directory of the store"), {
        code: state.kind === "symlink" ? "ELOOP" : "ENOTDIR",
      });
    }
  }
}

/** Another run may make the same directory in the same moment. */
function makeSharedDirectory(path: Buffer): void {
  try {
    makeDirectory(path, 0o700);
  } catch (error) {
    if (!isErrno(error, "EEXIST")) throw error;
  }
}

/** In a directory that everyone may write to, ours must be ours: no link, our user's, closed to others. */
function claimTemporaryPlace(root: Buffer): void {
  const shared = root.subarray(0, root.lastIndexOf(0x2f));
  makeDirectories(shared, 0o700);
  const state = linkState(shared);
  if (state?.kind !== "directory" || state.uid !== ownUserId() || (state.mode & 0o077) !== 0) {
    throw Object.assign(new Error("not ours"), { code: "EPERM" });
  }
}

/** Makes the root with the two files that keep it out of version control and of backups. */
function prepareRoot(root: Buffer): void {
  makeDirectories(root, 0o700);
  const files = [
    [".gitignore", "*\n"],
    [
      "CACHEDIR.TAG",
      "Signature: 8a477f597d28d172789f06886806bc55\n# Records of commands, kept by agent-shell. See https://bford.info/cachedir/\n",
    ],
  ] as const;
  for (const [name, text] of files) {
    if (pathExists(join(root, name))) continue;
    const temporary = `${name}-${process.pid}.tmp`;
    // Left by a run that was killed, whose pid is ours by now.
    removeLeftover(join(root, temporary));
    replaceFile(join(root, temporary), join(root, name), text, { mode: 0o600, durable: false });
  }
}

function latestOf(root: Buffer, group: Group): string | null {
  const name = readSymlink(join(root, "artifacts", group.executable, group.invocation, LATEST))?.toString("latin1");
  return name !== undefined && isRunId(name) ? name : null;
}

/** The text of the previous run's receipt, or null when there is none to read. */
export function readPreviousReceipt(run: RunDirectory): string | null {
  if (run.previousId === null) return null;
  const directory = runPath(run.root, run.group, run.previousId);
  if (linkState(directory)?.kind !== "directory") return null;
  return readWhole(join(directory, FILES.receipt))?.toString("utf8") ?? null;
}

/** The file for stdin that is forwarded. */
export function createStdinFile(run: RunDirectory): number {
  return createFile(join(run.path, FILES.stdin), 0o600);
}

/**
 * Reserves room for the journal and the receipt when the file system is filling up, so that both still find it when it
 * is full. Called from time to time: reserving at once would cost each start 0.3 ms. Throws ENOSPC.
 */
export function keepRoom(run: RunDirectory): void {
  if (run.hasReserve || (freeBytes(run.events) ?? 0) > LOW_BYTES) return;
  reserveSpace(run.events, RESERVE_BYTES);
  run.hasReserve = true;
}

/** Gives the reserve back, for the receipt to take. */
export function releaseRoom(run: RunDirectory): void {
  if (run.hasReserve) cutToSize(run.events);
}

/** Ends the growth of a stream or journal file: read-only from here on, and on the disk when `durable`. */
export function sealFile(fd: number, durable: boolean): void {
  if (durable) syncFile(fd);
  makeReadOnly(fd);
  closeFile(fd);
}

/** Puts the names of the run, of its group and of every level up to the root on the disk. */
export function syncDirectories(run: RunDirectory): void {
  const group = join(run.root, "artifacts", run.group.executable, run.group.invocation);
  const executable = join(run.root, "artifacts", run.group.executable);
  for (const path of [run.path, group, executable, artifactsPath(run.root), run.root]) syncDirectory(path);
}

/** Makes the run final: the receipt appears whole, under its name, in one step. */
export function publishReceipt(run: RunDirectory, text: string, durable: boolean): void {
  const temporary = join(run.path, ".receipt.json.tmp");
  replaceFile(temporary, join(run.path, FILES.receipt), text, { mode: 0o400, durable });
}

/** Before the receipt: its presence says that everything else is there. */
export function publishChanges(run: RunDirectory, changes: ChangesFile, durable: boolean): void {
  const temporary = join(run.path, ".changes.json.tmp");
  replaceFile(temporary, join(run.path, FILES.changes), `${JSON.stringify(changes)}\n`, { mode: 0o400, durable });
}

/** Writes a file under a temporary name and renames it: it is whole under its own name, or not there. */
function replaceFile(
  temporary: Buffer,
  path: Buffer,
  text: string,
  { mode, durable }: { mode: number; durable: boolean },
): void {
  try {
    const fd = createFile(temporary, mode);
    try {
      writeWhole(fd, Buffer.from(text, "utf8"));
      if (durable) syncFile(fd);
    } finally {
      closeFile(fd);
    }
    renameFile(temporary, path);
  } catch (error) {
    removeLeftover(temporary);
    throw error;
  }
}

/** Points the group's `latest` at this run. A failure costs only the convenience of the link. */
export function pointLatest(run: RunDirectory): boolean {
  const group = join(run.root, "artifacts", run.group.executable, run.group.invocation);
  const temporary = join(group, `.latest-${suffixOf(run.runId)}.tmp`);
  try {
    makeSymlink(run.runId, temporary);
    renameFile(temporary, join(group, LATEST));
    return true;
  } catch {
    removeLeftover(temporary);
    return false;
  }
}
