import { describe, expect, test } from "bun:test";
import { closeSync, constants, openSync, readFileSync, readSync } from "node:fs";
import fc from "fast-check";
import { StreamCapture } from "../../src/run/stream-capture.ts";
import { randomBytes } from "../helpers/random-bytes.ts";
import { TempDirectory } from "../helpers/temp-directory.ts";

const sha256 = (bytes: Uint8Array) => new Bun.CryptoHasher("sha256").update(bytes).digest("hex");
const HEAD = 16 * 1024 + 1;
const MIB = 2 ** 20;

/** A pipe that takes what fits and then refuses; what it took is read back from it. */
function withFullPipe(body: (fd: number, readAll: () => Buffer) => void): void {
  using temp = new TempDirectory();
  Bun.spawnSync(["mkfifo", temp.at("fifo")]);
  const fd = openSync(temp.at("fifo"), constants.O_RDWR | constants.O_NONBLOCK);
  try {
    body(fd, () => {
      const buffer = Buffer.alloc(4 * MIB);
      return buffer.subarray(0, readSync(fd, buffer));
    });
  } finally {
    closeSync(fd);
  }
}

describe("a stored stream", () => {
  test("has the bytes as they came, their hash, their number and their lines", () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 3000 }), { maxLength: 12 }), (chunks) => {
        using temp = new TempDirectory();
        const fd = openSync(temp.at("stream"), "wx");
        const capture = new StreamCapture(fd);
        // As a launcher does it: one buffer, filled anew for each read.
        const buffer = new Uint8Array(new ArrayBuffer(3000));
        for (const chunk of chunks) {
          buffer.set(chunk);
          expect(capture.write(buffer.subarray(0, chunk.length))).toBe(chunk.length);
        }
        capture.ended = "eof";
        closeSync(fd);
        const all = Buffer.concat(chunks);
        const feeds = all.filter((byte) => byte === 0x0a).length;
        expect(readFileSync(temp.at("stream")).equals(all)).toBe(true);
        expect(capture.whole()?.equals(all) ?? all.length > HEAD).toBe(true);
        expect(capture.record()).toEqual({
          ...{ bytes: all.length, sha256: sha256(all), complete: true, ended: "eof" },
          lines: feeds + (all.length > 0 && all.at(-1) !== 0x0a ? 1 : 0),
        });
      }),
      { numRuns: 100 },
    );
  }, 30_000);

  test("is whole in memory up to one byte more than a quickview may show", () => {
    using temp = new TempDirectory();
    const fd = openSync(temp.at("stream"), "wx");
    const capture = new StreamCapture(fd);
    const bytes = randomBytes(HEAD + 1, 4);
    capture.write(bytes.subarray(0, 10_000));
    capture.write(bytes.subarray(10_000, HEAD));
    expect(capture.whole()?.equals(bytes.subarray(0, HEAD))).toBe(true);
    capture.write(bytes.subarray(HEAD));
    expect(capture.whole()).toBeNull();
    closeSync(fd);
  });

  test("keeps its own copy of what it remembers", () => {
    using temp = new TempDirectory();
    const fd = openSync(temp.at("stream"), "wx");
    const capture = new StreamCapture(fd);
    const buffer = Buffer.from("first");
    capture.write(buffer);
    buffer.write("other");
    expect(capture.whole()?.toString()).toBe("first");
    closeSync(fd);
  });

  test("is complete by how it ended: not when reading failed", () => {
    const record = (ended: StreamCapture["ended"]) => Object.assign(new StreamCapture(1), { ended }).record();
    expect(record("error")).toMatchObject({ ended: "error", complete: false });
    expect(record("closed")).toMatchObject({ ended: "closed", complete: true, bytes: 0, lines: 0 });
    expect(record("held_open")).toMatchObject({ ended: "held_open", complete: true });
  });
});

describe("a stream that cannot be stored", () => {
  test("has an exact prefix in its file, and every other byte is counted as lost", () => {
    withFullPipe((fd, readAll) => {
      const capture = new StreamCapture(fd);
      const bytes = randomBytes(3 * MIB, 5);
      const returned = [0, 1, 2].map((i) => capture.write(bytes.subarray(i * MIB, (i + 1) * MIB)));
      const stored = readAll();
      expect(stored.length).toBeGreaterThan(0);
      expect(stored.equals(bytes.subarray(0, stored.length))).toBe(true);
      expect(capture).toMatchObject({
        bytes: stored.length,
        lostBytes: bytes.length - stored.length,
        failure: "EAGAIN",
      });
      expect(returned).toEqual([stored.length, 0, 0]);
      capture.ended = "eof";
      expect(capture.record()).toMatchObject({ bytes: stored.length, sha256: sha256(stored), complete: false });
    });
  });

  test("is not gone on with, though later writes would succeed: its file stays a prefix", () => {
    withFullPipe((fd, readAll) => {
      const capture = new StreamCapture(fd);
      capture.write(randomBytes(2 * MIB, 6));
      readAll();
      expect(capture.write(Buffer.from("more"))).toBe(0);
      expect(() => readAll()).toThrow("EAGAIN");
    });
  });

  test.each([
    ["on a full device", () => openSync("/dev/full", "w"), "ENOSPC"],
    ["on a descriptor that is not open", () => 99_999, "EBADF"],
  ])("is remembered by its errno, and does not throw: %s", (_, open, errno) => {
    const fd = open();
    const capture = new StreamCapture(fd);
    expect(capture.write(Buffer.from("abc"))).toBe(0);
    expect(capture.write(Buffer.from("de"))).toBe(0);
    expect(capture).toMatchObject({ bytes: 0, lostBytes: 5, failure: errno });
    expect(capture.record()).toMatchObject({ bytes: 0, sha256: sha256(Buffer.alloc(0)), complete: false, lines: 0 });
    if (fd !== 99_999) closeSync(fd);
  });
});

describe("a stream without a file", () => {
  test("is lost and not failed, and whole in memory while it is small", () => {
    const capture = new StreamCapture(null);
    expect(capture.write(Buffer.from("abc"))).toBe(0);
    expect(capture).toMatchObject({ bytes: 0, lostBytes: 3, failure: null });
    expect(capture.whole()?.toString()).toBe("abc");
    expect(capture.ends()).toEqual({ head: Buffer.from("abc"), tail: Buffer.alloc(0) });
  });

  test.each([1, 1000, 65_536, 3 * MIB])("keeps both ends of any length, in chunks of %p", (size) => {
    const bytes = randomBytes(size === 1 ? 2 * MIB + 1000 : 7 * MIB + 13, 7);
    const capture = new StreamCapture(null);
    for (let at = 0; at < bytes.length; at += size) capture.write(bytes.subarray(at, at + size));
    const { head, tail } = capture.ends();
    expect(head.equals(bytes.subarray(0, 2 * MIB))).toBe(true);
    expect(tail.length).toBeGreaterThanOrEqual(Math.min(2 * MIB, bytes.length - head.length));
    expect(tail.length).toBeLessThan(2 * MIB + Math.max(size, 2));
    expect(tail.equals(bytes.subarray(bytes.length - tail.length))).toBe(true);
    expect(capture.whole()).toBeNull();
  });
});
