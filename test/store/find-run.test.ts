import { describe, expect, test } from "bun:test";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { findRun, listRunDirectories } from "../../src/store/find-run.ts";
import { TempDirectory } from "../helpers/temp-directory.ts";
import { thrownBy } from "../helpers/thrown.ts";

const runId = (second: number, suffix: string) =>
  `run_202608280000${String(second).padStart(2, "0")}.000000Z-${suffix}`.replace("run_20260828", "run_20260828T");
const OLDEST = runId(1, "aaaaaaaa");
const MIDDLE = runId(2, "bbbbbbbb");
const NEWEST = runId(3, "cccccccc");

class Store extends TempDirectory {
  readonly root = this.bytesAt("r");

  run(group: string, id: string): string {
    const path = this.at("r", "artifacts", group, id);
    mkdirSync(path, { recursive: true });
    return path;
  }

  ids(): string[] {
    return listRunDirectories(this.root).map((run) => run.runId);
  }
}

function threeRuns(): Store {
  const store = new Store();
  store.run("b/2222", OLDEST);
  store.run("a/1111", NEWEST);
  store.run("b/3333", MIDDLE);
  return store;
}

describe("listRunDirectories", () => {
  test("gives the runs of all groups, newest first", () => {
    using store = threeRuns();
    expect(listRunDirectories(store.root).map(({ runId, group, path }) => [runId, group, path.toString()])).toEqual([
      [NEWEST, { executable: "a", invocation: "1111" }, store.at("r/artifacts/a/1111", NEWEST)],
      [MIDDLE, { executable: "b", invocation: "3333" }, store.at("r/artifacts/b/3333", MIDDLE)],
      [OLDEST, { executable: "b", invocation: "2222" }, store.at("r/artifacts/b/2222", OLDEST)],
    ]);
  });

  test("gives nothing for a root that is not there, empty, or a file", () => {
    using store = new Store();
    expect(store.ids()).toEqual([]);
    mkdirSync(store.at("r"));
    expect(store.ids()).toEqual([]);
    writeFileSync(store.at("r", "artifacts"), "");
    expect(store.ids()).toEqual([]);
  });

  test("passes over names that are not ours, files, and names that are no UTF-8", () => {
    using store = new Store();
    store.run("a/1111", OLDEST);
    for (const name of [".latest-aaaaaaaa.tmp", "run_x", `${NEWEST}.bak`, NEWEST.toUpperCase(), ".git"]) {
      store.run("a/1111", name);
    }
    writeFileSync(store.at("r/artifacts/a/1111", MIDDLE), "a file");
    writeFileSync(store.at("r/artifacts/file"), "");
    writeFileSync(store.at("r/artifacts/a/file"), "");
    const odd = Buffer.concat([store.bytesAt("r", "artifacts"), Buffer.from([0x2f, 0xff, 0xfe])]);
    mkdirSync(Buffer.concat([odd, Buffer.from(`/1111/${NEWEST}`)]), { recursive: true });
    expect(store.ids()).toEqual([OLDEST]);
  });

  test("passes over a symlink at every level", () => {
    using store = new Store();
    store.run("a/1111", OLDEST);
    mkdirSync(store.at("elsewhere", NEWEST), { recursive: true });
    mkdirSync(store.at("program", "1111", NEWEST), { recursive: true });
    symlinkSync(store.at("elsewhere", NEWEST), store.at("r/artifacts/a/1111", NEWEST));
    symlinkSync(store.at("elsewhere"), store.at("r/artifacts/a/2222"));
    symlinkSync(store.at("program"), store.at("r/artifacts/b"));
    symlinkSync(OLDEST, store.at("r/artifacts/a/1111/latest"));
    expect(store.ids()).toEqual([OLDEST]);
  });

  test("passes over artifacts that are a symlink", () => {
    using store = new Store();
    mkdirSync(join(store.at("elsewhere"), "a", "1111", OLDEST), { recursive: true });
    mkdirSync(store.at("r"));
    symlinkSync(store.at("elsewhere"), store.at("r", "artifacts"));
    expect(store.ids()).toEqual([]);
  });
});

describe("findRun", () => {
  test.each([
    ["a full id", MIDDLE, MIDDLE],
    ["a suffix", "aaaaaaaa", OLDEST],
    ["latest", "latest", NEWEST],
    ["@1", "@1", NEWEST],
    ["@3", "@3", OLDEST],
  ])("finds a run by %s", (_, text, id) => {
    using store = threeRuns();
    expect(findRun(store.root, text).runId).toBe(id);
  });

  test("counts runs that have no receipt", () => {
    using store = threeRuns();
    writeFileSync(join(store.at("r/artifacts/b/3333", MIDDLE), "receipt.json"), "{}");
    expect(findRun(store.root, "latest").runId).toBe(NEWEST);
  });

  test("refuses a suffix that fits several runs, with the ids", () => {
    using store = threeRuns();
    const twin = runId(9, "aaaaaaaa");
    store.run("c/4444", twin);
    const error = thrownBy(() => findRun(store.root, "aaaaaaaa"));
    expect(error.code).toBe("run_ambiguous");
    expect(error.message).toContain("'aaaaaaaa'");
    expect(error.hint).toContain(OLDEST);
    expect(error.hint).toContain(twin);
    expect(findRun(store.root, twin).runId).toBe(twin);
  });

  test.each(["@4", "@999999999", "dddddddd", runId(4, "dddddddd")])("tells that there is no %p", (text) => {
    using store = threeRuns();
    const error = thrownBy(() => findRun(store.root, text));
    expect(error.code).toBe("run_not_found");
    expect(error.message).toContain(text);
  });

  test("tells that an empty root has no latest", () => {
    using store = new Store();
    expect(thrownBy(() => findRun(store.root, "latest")).code).toBe("run_not_found");
  });

  test.each(["", "@0", "@", "@-1", "@01", "@1234567890", "LATEST", "aaaaaaa", "AAAAAAAA", "run_", "..", "a/1111", "*"])(
    "does not take %p for a run",
    (text) => {
      using store = threeRuns();
      expect(thrownBy(() => findRun(store.root, text)).code).toBe("usage");
    },
  );

  test("does not find a run directory that is a symlink", () => {
    using store = threeRuns();
    const id = runId(5, "eeeeeeee");
    mkdirSync(store.at("elsewhere"));
    symlinkSync(store.at("elsewhere"), store.at("r/artifacts/a/1111", id));
    for (const text of [id, "eeeeeeee"]) {
      expect(thrownBy(() => findRun(store.root, text)).code).toBe("run_not_found");
    }
  });
});
