import { describe, expect, test } from "bun:test";
import type { Receipt, StreamRecord } from "../../src/evidence/receipt.ts";
import { comparePrevious, completionOf, parsePrevious, storageOf } from "../../src/run/finish.ts";
import { Journal } from "../../src/run/journal.ts";
import { StreamCapture } from "../../src/run/stream-capture.ts";

const ID = "run_20260828T140312.417000Z-a1b2c3d4";
const ENDED = "2026-08-28T14:03:12.929Z";

function stream(bytes: number, sha256: string, changes: Partial<StreamRecord> = {}): StreamRecord {
  const record = { bytes, sha256, complete: true, ended: "eof", lines: 1, held_by: null, terminal: false };
  return { ...record, ...changes } as StreamRecord;
}

const STREAMS: Receipt["streams"] = { stdin: null, stdout: stream(34, "a"), stderr: stream(27, "b") };

const STORED = {
  schema: "agent-shell/receipt@1",
  run_id: ID,
  ended_at: ENDED,
  exit: { kind: "code", code: 1, signal: null },
  streams: STREAMS,
};

function previousOf(changes: Record<string, unknown> = {}) {
  return parsePrevious(ID, JSON.stringify({ ...STORED, ...changes }));
}

describe("the previous run", () => {
  test("is told by its id, its age, its exit, and whether each stream has the same bytes", () => {
    const streams = { ...STREAMS, stderr: stream(27, "other") };
    expect(comparePrevious(previousOf(), Date.parse(ENDED) + 38_012, streams)).toEqual({
      run_id: ID,
      age_ms: 38_012,
      exit: { kind: "code", code: 1, signal: null },
      streams: { stdout: { same: true }, stderr: { same: false } },
    });
  });

  test("is 0 ms old when the wall clock was set back", () => {
    expect(comparePrevious(previousOf(), Date.parse(ENDED) - 5000, STREAMS)?.age_ms).toBe(0);
  });

  test("may have fields that we do not know", () => {
    expect(previousOf({ later: { field: 1 }, exit: { ...STORED.exit, core: true } })?.exit).toEqual({
      kind: "code",
      code: 1,
      signal: null,
    });
  });

  test("is none where there is no receipt", () => {
    expect(comparePrevious(parsePrevious(null, JSON.stringify(STORED)), 0, STREAMS)).toBeNull();
    expect(comparePrevious(parsePrevious(ID, null), 0, STREAMS)).toBeNull();
  });

  test.each([
    ["", "nothing"],
    ["{", "torn JSON"],
    [JSON.stringify(STORED).slice(0, -40), "a torn receipt"],
    ["null", "null"],
    ["[]", "a list"],
    ['"text"', "text"],
    ["{}", "an empty object"],
  ])("is none where the receipt is %p: %s", (text) => {
    expect(comparePrevious(parsePrevious(ID, text), 0, STREAMS)).toBeNull();
  });

  test.each([
    ["of another version", { schema: "agent-shell/receipt@2" }],
    ["of another run", { run_id: ID.replace("a1b2", "a1b3") }],
    ["without an end", { ended_at: undefined }],
    ["with an end that is no time", { ended_at: "yesterday" }],
    ["without an exit", { exit: undefined }],
    ["with null for its exit", { exit: null }],
    ["without streams", { streams: undefined }],
    ["with null for its streams", { streams: null }],
  ])("is none where the receipt is %s", (_, changes) => {
    expect(comparePrevious(previousOf(changes), 0, STREAMS)).toBeNull();
  });

  test("is none where the receipt's exit is none: {}", () => {
    expect(comparePrevious(previousOf({ exit: {} }), 0, STREAMS)).toBeNull();
  });
});

describe("storageOf", () => {
  function recording() {
    const captures = { stdout: new StreamCapture(null), stderr: new StreamCapture(null) };
    return {
      ...captures,
      stdin: null as StreamCapture | null,
      journal: new Journal(null),
      refusal: null as string | null,
    };
  }

  test("adds up what the streams hold, all of it new", () => {
    expect(storageOf({ ...STREAMS, stdin: stream(5, "c") }, recording())).toEqual({
      ...{ logical_bytes: 66, new_bytes: 66, reused_bytes: 0, complete: true, reason: null, lost_bytes: 0 },
      ...{ stored: true, dedup: "unavailable", dedup_reason: "each run keeps its own files" },
    });
    expect(storageOf({ stdin: null, stdout: null, stderr: null }, recording())).toMatchObject({
      ...{ logical_bytes: 0, complete: true },
    });
  });

  test("is not complete, with the first reason that there is", () => {
    const failed = recording();
    failed.journal.failure = "EIO";
    expect(storageOf(STREAMS, failed)).toMatchObject({ complete: false, reason: "EIO" });
    failed.stderr.failure = "EDQUOT";
    expect(storageOf(STREAMS, failed)).toMatchObject({ reason: "EDQUOT" });
    failed.stdout.failure = "ENOSPC";
    expect(storageOf(STREAMS, failed)).toMatchObject({ reason: "ENOSPC", stored: true });
    failed.refusal = "EROFS";
    expect(storageOf(STREAMS, failed)).toMatchObject({ reason: "EROFS", stored: false });
  });

  test("counts the bytes that were lost on every stream", () => {
    const lost = recording();
    lost.stdin = new StreamCapture(null);
    for (const capture of [lost.stdout, lost.stderr, lost.stdin]) capture.write(Buffer.alloc(5));
    expect(storageOf(STREAMS, lost).lost_bytes).toBe(15);
  });

  test.each(["budget", "error"] as const)("is not complete where a stream ended by %s", (ended) => {
    const streams = { ...STREAMS, stderr: stream(1, "x", { complete: false, ended }) };
    expect(storageOf(streams, recording())).toMatchObject({ complete: false, reason: `stderr-${ended}` });
  });
});

describe("completionOf", () => {
  const receipt = { ...STORED, warnings: [] } as unknown as Receipt;
  const view = { items: [] };

  test("takes the run's facts as they are in the receipt", () => {
    const completion = completionOf(receipt, null, null, "/p", null);
    expect(completion).toMatchObject({ schema: "agent-shell/completion@1", run_id: ID, suffix: "a1b2c3d4" });
    expect(completion.exit).toBe(receipt.exit);
    expect(completion.streams).toBe(receipt.streams);
  });

  test("names a command to go on with, where there is output that was not shown and can be read", () => {
    const next = ["ashctl", "show", "a1b2c3d4", "merged"];
    const silent = { ...receipt, streams: { stdin: stream(9, "x"), stdout: null, stderr: stream(0, "y") } };
    expect(completionOf(receipt, null, null, "/p", null).next).toEqual(next);
    expect(completionOf(receipt, view, null, "/p", null).next).toBeNull();
    expect(completionOf(receipt, null, null, null, null).next).toBeNull();
    expect(completionOf(silent, null, null, "/p", null).next).toBeNull();
    const elsewhere = completionOf(receipt, null, null, "/p", "/r").next;
    expect(elsewhere).toEqual(["ashctl", "--root", "/r", "show", "a1b2c3d4", "merged"]);
  });
});
