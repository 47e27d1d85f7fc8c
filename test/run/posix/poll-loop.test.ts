import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { closeFile, readOnce, writeOnce } from "../../../src/base/files.ts";
import { integers, libc } from "../../../src/base/libc.ts";
import { PollLoop } from "../../../src/run/posix/poll-loop.ts";
import { TempDirectory } from "../../helpers/temp-directory.ts";

interface Pipe {
  read: number;
  write: number;
}

/** Gives `body` a loop and pipes, which are closed afterwards. */
async function withPipes(count: number, body: (loop: PollLoop, pipes: Pipe[]) => Promise<void>): Promise<void> {
  const pipes = Array.from({ length: count }, (): Pipe => {
    const ends = integers(2);
    expect(libc!.pipe2(ends, 0o2004000)).toBe(0);
    return { read: ends[0]!, write: ends[1]! };
  });
  try {
    await body(new PollLoop(libc!, null), pipes);
  } finally {
    for (const { read, write } of pipes) for (const fd of [read, write]) closeFile(fd);
  }
}

const byte = new Uint8Array(new ArrayBuffer(1));

describe.skipIf(libc === null)("the poll loop", () => {
  test("calls the action of a descriptor that has something to read, once a turn, until it is read", async () => {
    await withPipes(2, async (loop, [busy, idle]) => {
      const calls: string[] = [];
      loop.watch(busy!.read, () => calls.push("busy"));
      loop.watch(idle!.read, () => calls.push("idle"));
      writeOnce(busy!.write, byte);
      await loop.turn();
      await loop.turn();
      expect(calls).toEqual(["busy", "busy"]);
      readOnce(busy!.read, byte);
      loop.after(0, () => calls.push("timer"));
      await loop.turn();
      expect(calls).toEqual(["busy", "busy", "timer"]);
    });
  });

  test("calls the action at the end of file", async () => {
    await withPipes(1, async (loop, [pipe]) => {
      let calls = 0;
      loop.watch(pipe!.read, () => {
        calls += 1;
      });
      closeFile(pipe!.write);
      pipe!.write = pipe!.read;
      await loop.turn();
      expect(calls).toBe(1);
      // Closed twice at the end: the second time there is nothing.
    });
  });

  test("gives each ready descriptor one action a turn, in the order of the watches, then the timers", async () => {
    await withPipes(3, async (loop, pipes) => {
      const calls: number[] = [];
      for (const [i, pipe] of pipes.entries()) {
        writeOnce(pipe.write, byte);
        loop.watch(pipe.read, () => calls.push(i));
      }
      loop.after(0, () => calls.push(9));
      await loop.turn();
      expect(calls).toEqual([0, 1, 2, 9]);
    });
  });

  test("calls no action of a watch that an earlier one of the same turn has ended", async () => {
    await withPipes(2, async (loop, [first, second]) => {
      const calls: string[] = [];
      for (const pipe of [first!, second!]) writeOnce(pipe.write, byte);
      loop.watch(first!.read, () => {
        calls.push("first");
        loop.unwatch(second!.read);
      });
      loop.watch(second!.read, () => calls.push("second"));
      await loop.turn();
      expect(calls).toEqual(["first"]);
    });
  });

  test("calls a new watch from the next turn on", async () => {
    await withPipes(2, async (loop, [first, second]) => {
      const calls: string[] = [];
      for (const pipe of [first!, second!]) writeOnce(pipe.write, byte);
      loop.watch(first!.read, () => {
        calls.push("first");
        loop.unwatch(first!.read);
        loop.watch(second!.read, () => calls.push("second"));
      });
      await loop.turn();
      expect(calls).toEqual(["first"]);
      await loop.turn();
      expect(calls).toEqual(["first", "second"]);
    });
  });

  test("watches as many descriptors as there are", async () => {
    await withPipes(60, async (loop, pipes) => {
      const calls = new Set<number>();
      for (const [i, pipe] of pipes.entries()) {
        loop.watch(pipe.read, () => calls.add(i));
        if (i % 2 === 1) writeOnce(pipe.write, byte);
      }
      await loop.turn();
      expect([...calls]).toEqual(Array.from({ length: 30 }, (_, i) => 2 * i + 1));
    });
  });

  test("waits for a pipe that takes bytes, and not while it is full", async () => {
    await withPipes(1, async (loop, [pipe]) => {
      const calls: string[] = [];
      loop.watchWritable(pipe!.write, () => calls.push("writable"));
      await loop.turn();
      expect(calls).toEqual(["writable"]);
      const much = new Uint8Array(new ArrayBuffer(1 << 16));
      expect(() => {
        for (;;) writeOnce(pipe!.write, much);
      }).toThrow("EAGAIN");
      loop.after(0, () => calls.push("timer"));
      await loop.turn();
      expect(calls).toEqual(["writable", "timer"]);
    });
  });

  test("isReadable tells whether a read would give something, and disturbs no watch", async () => {
    await withPipes(2, async (loop, [watched, asked]) => {
      let calls = 0;
      loop.watch(watched!.read, () => {
        calls += 1;
      });
      writeOnce(watched!.write, byte);
      expect(loop.isReadable(asked!.read)).toBe(false);
      writeOnce(asked!.write, byte);
      expect(loop.isReadable(asked!.read)).toBe(true);
      await loop.turn();
      expect(calls).toBe(1);
    });
  });

  test("waits no longer than its first timer, and fires none before its time", async () => {
    const loop = new PollLoop(libc!, null);
    const start = performance.now();
    let firedAt = 0;
    loop.after(86_400_000 * 30, () => {
      throw new Error("30 days have not passed");
    });
    loop.after(20, () => {
      firedAt = performance.now() - start;
    });
    while (firedAt === 0) await loop.turn();
    expect(firedAt).toBeGreaterThanOrEqual(19.9);
    expect(firedAt).toBeLessThan(2000);
  });

  test("is prompt with timers and signals while a child keeps its pipe full", () => {
    using temp = new TempDirectory();
    const fixture = join(import.meta.dir, "../../fixtures/flood.ts");
    const child = Bun.spawnSync([process.execPath, fixture, temp.at("results")], { stdin: "ignore", timeout: 25_000 });
    expect({ code: child.exitCode, errors: child.stderr.toString() }).toEqual({ code: 0, errors: "" });
    const results = JSON.parse(readFileSync(temp.at("results"), "utf8")) as {
      timersLateMs: number[];
      signalsLateMs: number[];
      bytes: number;
    };
    // As streams of the runtime they came 100 to 1,000 ms late. A busy machine may delay a few.
    const nearlyAll = (lateMs: number[]) => lateMs.sort((a, b) => a - b)[Math.floor(lateMs.length * 0.9)];
    expect(nearlyAll(results.signalsLateMs)).toBeLessThan(50);
    expect(nearlyAll(results.timersLateMs)).toBeLessThan(50);
    expect(results.bytes).toBeGreaterThan(10_000_000);
  }, 30_000);
});
