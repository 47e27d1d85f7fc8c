/**
 * The drainer: reads what descendants write after their run was finalized, so that they never meet SIGPIPE, and stores it
 * beside the run as long as the run's budget lasts. It ends with the streams.
 */
import { isErrno } from "./base/errors.ts";
import { closeFile, createFile, readOnce } from "./base/files.ts";
import { libc, memory, monotonicClockNs } from "./base/libc.ts";
import { lateFile } from "./evidence/names.ts";
import { Budget } from "./run/budget.ts";
import { Journal } from "./run/journal.ts";
import { DRAINER_FIRST_FD } from "./run/late-capture.ts";
import type { OutputStream } from "./run/launcher.ts";
import { PollLoop } from "./run/posix/poll-loop.ts";
import { StreamCapture } from "./run/stream-capture.ts";
import { join } from "./store/layout.ts";
import { sealFile } from "./store/run-directory.ts";

const READ_BYTES = 64 * 1024;

/** `words` as `startDrainer` gives them: budget, start of the clock, streams from descriptor 3 up, directory. */
export async function main(words: readonly Buffer[]): Promise<number> {
  const [budgetText, startText, streamsText, directory] = words;
  if (libc === null || directory === undefined) return 1;
  const streams = streamsText!.toString().split(",") as OutputStream[];
  const loop = new PollLoop(libc, null);
  const late = new LateRecording(directory, budgetText!.toString(), Number(startText!.toString()));
  let open = streams.length;
  for (const [index, stream] of streams.entries()) {
    const fd = DRAINER_FIRST_FD + index;
    const buffer = memory(READ_BYTES);
    loop.watch(fd, () => {
      const count = readOrEnd(fd, buffer);
      if (count === null) return;
      if (count > 0) {
        late.store(stream, buffer.subarray(0, count));
        return;
      }
      loop.unwatch(fd);
      closeFile(fd);
      late.end(stream);
      open -= 1;
    });
  }
  while (open > 0) {
    await loop.turn();
    late.flush();
  }
  late.seal();
  return 0;
}

/**
 * Bytes read, 0 at the end of the stream: what cannot be read (a hung-up terminal answers EIO) has ended too. null: there
 * was nothing after all.
 */
function readOrEnd(fd: number, buffer: Uint8Array): number | null {
  try {
    return readOnce(fd, buffer);
  } catch (error) {
    return isErrno(error, "EAGAIN") || isErrno(error, "EINTR") ? null : 0;
  }
}

/** Files are made when the first late byte comes: a silent descendant leaves nothing. */
class LateRecording {
  private readonly directory: Buffer;
  private readonly budget: Budget;
  /** What the run left of its budget. */
  private readonly bytes: number;
  private readonly startNs: number;
  private readonly captures = new Map<OutputStream, { capture: StreamCapture; fd: number }>();
  private journal: { journal: Journal; fd: number } | null = null;
  private full = false;

  constructor(directory: Buffer, budget: string, startNs: number) {
    this.directory = directory;
    this.bytes = budget === "none" ? 0 : Number(budget);
    this.budget = new Budget(budget === "none" ? null : this.bytes);
    this.startNs = startNs;
  }

  store(stream: OutputStream, bytes: Uint8Array): void {
    const granted = this.budget.take(bytes.length);
    if (granted > 0) {
      const capture = this.open(stream);
      const offset = capture?.bytes ?? 0;
      const stored = capture?.write(bytes.subarray(0, granted)) ?? 0;
      if (stored > 0) this.events()?.chunk(stream, offset, stored, this.elapsed());
    }
    if (granted < bytes.length && !this.full) {
      this.full = true;
      this.events()?.append({ type: "limit", elapsed_ns: this.elapsed(), limit: "output_bytes", value: this.bytes });
    }
  }

  end(stream: OutputStream): void {
    const bytes = this.captures.get(stream)?.capture.bytes;
    if (bytes === undefined) return;
    this.events()?.append({ type: "stream_end", elapsed_ns: this.elapsed(), stream, reason: "eof", bytes });
  }

  flush(): void {
    this.journal?.journal.flush();
  }

  seal(): void {
    this.flush();
    for (const { fd } of this.captures.values()) sealFile(fd, false);
    if (this.journal !== null) sealFile(this.journal.fd, false);
  }

  private open(stream: OutputStream): StreamCapture | null {
    const known = this.captures.get(stream);
    if (known !== undefined) return known.capture;
    const fd = this.create(lateFile(stream));
    if (fd === null) return null;
    const capture = new StreamCapture(fd);
    this.captures.set(stream, { capture, fd });
    return capture;
  }

  private events(): Journal | null {
    if (this.journal !== null) return this.journal.journal;
    const fd = this.create(lateFile("events"));
    if (fd === null) return null;
    this.journal = { journal: new Journal(fd), fd };
    return this.journal.journal;
  }

  /** null when the store cannot take it: the stream is drained all the same. */
  private create(name: string): number | null {
    if (this.directory.length === 0) return null;
    try {
      return createFile(join(this.directory, name), 0o600);
    } catch {
      return null;
    }
  }

  private elapsed(): number {
    return monotonicClockNs(libc!) - this.startNs;
  }
}
