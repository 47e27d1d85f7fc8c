/** Where the lines of a run's output begin, in the order in which they were observed. Constant memory. */
import { closeSync, openSync, readSync } from "node:fs";
import type { Event } from "../evidence/event.ts";
import { FILES } from "../evidence/names.ts";
import type { FoundRun } from "../store/find-run.ts";
import { join } from "../store/layout.ts";
import { fileBytes } from "../store/read-run.ts";

export type OutputStream = "stdout" | "stderr";

export interface LineStart {
  stream: OutputStream;
  /** 1-based, in its own stream. */
  line: number;
  offset: number;
  /** null: no event of the journal tells. */
  elapsedNs: number | null;
}

/** A stretch of a stream, as it was observed or as it lies in the file. */
export interface Stretch {
  stream: OutputStream;
  offset: number;
  bytes: number;
  elapsedNs: number | null;
}

const BLOCK_BYTES = 256 * 1024;

/** Reads the stretches one after the other and gives the beginning of every line in them. */
export function* lineStarts(run: FoundRun, stretches: Iterable<Stretch>): Generator<LineStart> {
  const states = { stdout: { line: 0, atStart: true }, stderr: { line: 0, atStart: true } };
  for (const { stream, offset, bytes, elapsedNs } of stretches) {
    const state = states[stream];
    for (const { at, block } of blocksOf(run, FILES[stream], offset, offset + bytes)) {
      for (let i = 0; i < block.length; ) {
        if (state.atStart) {
          state.line += 1;
          yield { stream, line: state.line, offset: at + i, elapsedNs };
        }
        const feed = block.indexOf(0x0a, i);
        state.atStart = feed >= 0;
        i = feed < 0 ? block.length : feed + 1;
      }
    }
  }
}

/**
 * The observed stretches of the journal, then what the files have beyond it: of a run whose broker was killed, or whose
 * journal is damaged, the time of those bytes is unknown.
 */
export function* observedStretches(run: FoundRun, sizes: ReadonlyMap<OutputStream, number>): Generator<Stretch> {
  const covered = { stdout: 0, stderr: 0 };
  for (const event of journalOf(run)) {
    if (event.type !== "chunk" || event.stream === "stdin") continue;
    const { stream, offset, bytes, elapsed_ns: elapsedNs } = event;
    // A gap means damage: from there on the file itself is read.
    if (offset !== covered[stream]) break;
    covered[stream] = offset + bytes;
    yield { stream, offset, bytes: Math.min(bytes, (sizes.get(stream) ?? 0) - offset), elapsedNs };
  }
  for (const [stream, size] of sizes) {
    const rest = size - covered[stream];
    if (rest > 0) yield { stream, offset: covered[stream], bytes: rest, elapsedNs: null };
  }
}

/** The events of a journal up to a torn or damaged line. */
function* journalOf(run: FoundRun): Generator<Event> {
  let rest: Buffer = Buffer.alloc(0);
  for (const { block } of blocksOf(run, FILES.events, 0, fileBytes(run, FILES.events) ?? 0)) {
    rest = Buffer.concat([rest, block]);
    let from = 0;
    for (let feed = rest.indexOf(0x0a); feed >= 0; feed = rest.indexOf(0x0a, from)) {
      let event: Event | null;
      try {
        event = JSON.parse(rest.toString("utf8", from, feed)) as Event | null;
      } catch {
        return;
      }
      from = feed + 1;
      if (event !== null) yield event;
    }
    rest = rest.subarray(from);
  }
}

/** The bytes of a file from `from` to `to`, in blocks that are valid until the next one is asked for. */
export function* blocksOf(
  run: FoundRun,
  file: string,
  from: number,
  to: number,
): Generator<{ at: number; block: Buffer }> {
  if (from >= to) return;
  const fd = openSync(join(run.path, file), "r");
  try {
    const buffer = Buffer.alloc(Math.min(BLOCK_BYTES, to - from));
    for (let at = from; at < to; ) {
      const count = readSync(fd, buffer, 0, Math.min(buffer.length, to - at), at);
      if (count === 0) return;
      yield { at, block: buffer.subarray(0, count) };
      at += count;
    }
  } finally {
    closeSync(fd);
  }
}
