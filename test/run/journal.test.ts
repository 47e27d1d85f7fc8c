import { describe, expect, test } from "bun:test";
import { closeSync, constants, openSync, readFileSync, readSync } from "node:fs";
import fc from "fast-check";
import type { ChunkEvent, Event } from "../../src/evidence/event.ts";
import { Journal } from "../../src/run/journal.ts";
import { TempDirectory } from "../helpers/temp-directory.ts";

const ALLOWANCE = 40 * 1024;
/** The longest that a chunk event can be, more or less. */
const LINE_BYTES = 200;

interface Read {
  stream: "stdout" | "stderr";
  bytes: number;
}

/** The lines of a journal that `body` writes, and the journal itself. */
function writeJournal(body: (journal: Journal) => void): { lines: string[]; events: Event[]; journal: Journal } {
  using temp = new TempDirectory();
  const fd = openSync(temp.at("events.jsonl"), "wx");
  const journal = new Journal(fd);
  body(journal);
  journal.flush();
  closeSync(fd);
  const lines = readFileSync(temp.at("events.jsonl"), "utf8").split("\n").slice(0, -1);
  return { lines, events: lines.map((line) => JSON.parse(line) as Event), journal };
}

const END: Event = { type: "run_finalized", elapsed_ns: 1e9, state: "completed" };
const isChunk = (event: Event): event is ChunkEvent => event.type === "chunk";

/** Feeds reads 10 ns apart, then the end. */
function feed(journal: Journal, reads: readonly Read[]): void {
  const offsets = { stdout: 0, stderr: 0 };
  reads.forEach(({ stream, bytes }, i) => {
    journal.chunk(stream, offsets[stream], bytes, 10 * i);
    offsets[stream] += bytes;
  });
  journal.append(END);
}

const read: fc.Arbitrary<Read> = fc.record({
  stream: fc.constantFrom("stdout", "stdout", "stderr"),
  bytes: fc.oneof(fc.constantFrom(1, 2, 7), fc.integer({ min: 1, max: 300 }), fc.integer({ min: 1, max: 262_144 })),
});
/** From a quiet run to one of thousands of tiny writes, which come near the bound. */
const reads = fc.oneof(
  fc.array(read, { maxLength: 60 }),
  fc.tuple(fc.integer({ min: 300, max: 3000 }), fc.array(read, { minLength: 1, maxLength: 12 })).map(([count, some]) =>
    Array.from({ length: count }, (_, i): Read => {
      const { stream, bytes } = some[i % some.length]!;
      return { stream, bytes: 1 + (bytes % 40) };
    }),
  ),
);

describe("chunk events", () => {
  test("cover each stream exactly and in order, however the reads come", () => {
    fc.assert(
      fc.property(reads, (all) => {
        const { events } = writeJournal((journal) => feed(journal, all));
        for (const name of ["stdout", "stderr"] as const) {
          let offset = 0;
          for (const event of events.filter(isChunk).filter(({ stream }) => stream === name)) {
            expect([event.offset, event.bytes > 0]).toEqual([offset, true]);
            offset += event.bytes;
          }
          expect(offset).toBe(all.filter(({ stream }) => stream === name).reduce((sum, { bytes }) => sum + bytes, 0));
        }
        expect(events.at(-1)).toEqual(END);
      }),
      { numRuns: 150 },
    );
  }, 30_000);

  test("tell how many reads they cover, and when the first and the last were observed", () => {
    fc.assert(
      fc.property(reads, (all) => {
        const { events } = writeJournal((journal) => feed(journal, all));
        for (const name of ["stdout", "stderr"] as const) {
          const own = all.map((one, i) => ({ ...one, at: 10 * i })).filter(({ stream }) => stream === name);
          for (const event of events.filter(isChunk).filter(({ stream }) => stream === name)) {
            const covered = own.splice(0, event.chunks ?? 1);
            expect(covered.reduce((sum, { bytes }) => sum + bytes, 0)).toBe(event.bytes);
            expect(event.elapsed_ns).toBe(covered[0]!.at);
            const merged = event.chunks === undefined ? undefined : covered.at(-1)!.at;
            expect(event.elapsed_last_ns).toBe(merged as number);
            expect(event.chunks).not.toBe(1);
          }
          expect(own).toEqual([]);
        }
      }),
      { numRuns: 150 },
    );
  }, 30_000);

  test("stay below the bytes of the output plus 40 KiB and one line", () => {
    fc.assert(
      fc.property(reads, (all) => {
        const { lines } = writeJournal((journal) => feed(journal, all));
        const chunkBytes = lines
          .filter((line) => line.startsWith('{"type":"chunk"'))
          .reduce((sum, line) => sum + line.length + 1, 0);
        const output = all.reduce((sum, { bytes }) => sum + bytes, 0);
        expect(chunkBytes).toBeLessThanOrEqual(output + ALLOWANCE + LINE_BYTES);
      }),
      { numRuns: 150 },
    );
  }, 30_000);

  test("stay below that bound when other events come between them: 1,000 reads of 1 byte, each with a sample behind it", () => {
    const sample: Event = {
      ...{ type: "sample", elapsed_ns: 5, processes: 1, threads: 1, rss_bytes: 1, peak_bytes: 1, cpu_ms: 0 },
      ...{ stdout_bytes: 0, stderr_bytes: 0 },
    };
    const { lines } = writeJournal((journal) => {
      for (let i = 0; i < 1000; i += 1) {
        journal.chunk("stdout", i, 1, 1_000_000 * i);
        journal.append(sample);
      }
    });
    const chunkBytes = lines
      .filter((line) => line.startsWith('{"type":"chunk"'))
      .reduce((sum, line) => sum + line.length + 1, 0);
    expect(chunkBytes).toBeLessThanOrEqual(1000 + ALLOWANCE + LINE_BYTES);
  });

  test("of a quiet run are one for each read", () => {
    const { events } = writeJournal((journal) =>
      feed(journal, [
        { stream: "stdout", bytes: 5 },
        { stream: "stderr", bytes: 6 },
        { stream: "stdout", bytes: 7 },
      ]),
    );
    expect(events).toEqual([
      { type: "chunk", elapsed_ns: 0, stream: "stdout", offset: 0, bytes: 5 },
      { type: "chunk", elapsed_ns: 10, stream: "stderr", offset: 0, bytes: 6 },
      { type: "chunk", elapsed_ns: 20, stream: "stdout", offset: 5, bytes: 7 },
      END,
    ]);
  });

  test("are kept in memory for the first 16 KiB of output, however much stdin there was, and without a file as well", () => {
    for (const fd of [null, openSync("/dev/null", "w")]) {
      const journal = new Journal(fd);
      for (let i = 0; i < 5000; i += 1) journal.chunk("stdin", i * 1000, 1000, i);
      for (let i = 0; i < 20; i += 1) journal.chunk("stdout", i * 1024, 1024, 5000 + i);
      expect(journal.kept.map(({ stream, offset }) => `${stream} ${offset}`)).toEqual(
        Array.from({ length: 17 }, (_, i) => `stdout ${i * 1024}`),
      );
    }
  });
});

describe("append", () => {
  test("comes behind every chunk that was observed before", () => {
    const { events } = writeJournal((journal) => {
      for (let i = 0; i < 2000; i += 1) journal.chunk(i % 2 ? "stdout" : "stderr", i >> 1, 1, i);
      journal.append({ type: "child_exited", elapsed_ns: 3000, kind: "code", code: 0, signal: null });
      journal.chunk("stdout", 1000, 1, 4000);
      journal.append(END);
    });
    const exit = events.findIndex(({ type }) => type === "child_exited");
    const covered = events.slice(0, exit).filter(isChunk);
    expect(covered.reduce((sum, { bytes }) => sum + bytes, 0)).toBe(2000);
    expect(events.slice(exit + 1).map(({ type }) => type)).toEqual(["chunk", "run_finalized"]);
  });

  test("is written by flush, and knows whether something waits", () => {
    using temp = new TempDirectory();
    const fd = openSync(temp.at("j"), "w");
    const journal = new Journal(fd);
    expect(journal.hasUnwritten).toBe(false);
    journal.append(END);
    expect([journal.hasUnwritten, readFileSync(temp.at("j"), "utf8")]).toEqual([true, ""]);
    journal.flush();
    journal.flush();
    expect([journal.hasUnwritten, readFileSync(temp.at("j"), "utf8")]).toEqual([false, `${JSON.stringify(END)}\n`]);
    closeSync(fd);
  });

  test("writes text that is no ASCII whole", () => {
    const { events } = writeJournal((journal) => journal.append({ ...END, state: "größer 👍 \u2028" } as Event));
    expect(events).toEqual([{ ...END, state: "größer 👍 \u2028" } as Event]);
  });
});

describe("a failed write", () => {
  test("is remembered by its errno and does not throw", () => {
    const fd = openSync("/dev/full", "w");
    const journal = new Journal(fd);
    journal.append(END);
    journal.flush();
    expect([journal.failure, journal.hasUnwritten]).toEqual(["ENOSPC", false]);
    closeSync(fd);
  });

  test("on a descriptor that is not open is remembered as well", () => {
    const journal = new Journal(99_999);
    journal.append(END);
    journal.flush();
    expect(journal.failure).toBe("EBADF");
  });

  test("ends the journal where it is, though later writes would succeed", () => {
    using temp = new TempDirectory();
    Bun.spawnSync(["mkfifo", temp.at("fifo")]);
    const fd = openSync(temp.at("fifo"), constants.O_RDWR | constants.O_NONBLOCK);
    const journal = new Journal(fd);
    for (let i = 0; journal.failure === null && i < 100_000; i += 1) {
      journal.append(END);
      journal.flush();
    }
    expect(journal.failure).toBe("EAGAIN");
    const buffer = Buffer.alloc(1 << 20);
    const before = readSync(fd, buffer);
    expect(before).toBeGreaterThan(0);
    journal.append(END);
    journal.flush();
    let more = 0;
    try {
      more = readSync(fd, buffer);
    } catch (error) {
      expect((error as NodeJS.ErrnoException).code).toBe("EAGAIN");
    }
    closeSync(fd);
    expect([more, journal.failure, journal.hasUnwritten]).toEqual([0, "EAGAIN", false]);
  });
});
