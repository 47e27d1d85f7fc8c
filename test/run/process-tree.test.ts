import { afterEach, describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { readWhole } from "../../src/base/files.ts";
import { ownChildren, readMemory, readProcess, readTree } from "../../src/run/process-tree.ts";
import { sampleProcesses } from "../../src/run/sample.ts";
import { TempDirectory } from "../helpers/temp-directory.ts";
import { waitUntil } from "../helpers/wait-until.ts";

const started: Bun.Subprocess[] = [];

/** In a session of its own, so that all of it can be ended at once. */
function start(...argv: string[]): { pid: number; foreign: Set<number> } {
  const foreign = new Set(ownChildren());
  const child = Bun.spawn(argv, { stdin: "ignore", stdout: "ignore", detached: true });
  started.push(child);
  return { pid: child.pid, foreign };
}

afterEach(async () => {
  for (const child of started.splice(0)) {
    try {
      process.kill(-child.pid, "SIGKILL");
    } catch {
      // It has ended by itself.
    }
    await child.exited;
  }
});

/** The command line of a process; empty when it has gone meanwhile. */
function wordsOf(pid: number): string {
  return readWhole(`/proc/${pid}/cmdline`)?.toString().split("\0").slice(0, -1).join(" ") ?? "";
}

describe.skipIf(process.platform !== "linux")("the process tree", () => {
  test("is the shell and its sleep, the parent first", async () => {
    const { pid, foreign } = start("sh", "-c", "sleep 30 & wait");
    const tree = await waitUntil(() => {
      const now = readTree(({ pid }) => foreign.has(pid));
      return now.length === 2 && wordsOf(now[1]!.pid) === "sleep 30" && now;
    }, "a tree of two processes");
    expect(tree[0]).toMatchObject({ pid, ppid: process.pid, threads: 1 });
    expect(tree[1]).toMatchObject({ ppid: pid, threads: 1 });
    expect(tree[1]!.startTicks).toBeGreaterThanOrEqual(tree[0]!.startTicks);
    expect(tree[0]!.startTicks).toBeGreaterThan(0);
  });

  test("has every level, parents before children", async () => {
    const { foreign } = start("sh", "-c", "sh -c 'sh -c \"sleep 30; :\"; :'; :");
    const tree = await waitUntil(() => {
      const now = readTree(({ pid }) => foreign.has(pid));
      return now.length === 4 && now;
    }, "a tree of four processes");
    for (let i = 1; i < 4; i += 1) expect(tree[i]!.ppid).toBe(tree[i - 1]!.pid);
  });

  test("leaves out children that were there before, and theirs", async () => {
    const { foreign } = start("sh", "-c", "sleep 30 & wait");
    await waitUntil(() => readTree(({ pid }) => foreign.has(pid)).length === 2);
    expect(readTree(() => true)).toEqual([]);
  });

  test("has children of all threads", async () => {
    const program =
      "import subprocess, threading, time\n" +
      "t = threading.Thread(target=lambda: subprocess.Popen(['sleep', '30']).wait())\n" +
      "t.start()\nt.join()";
    const { foreign } = start("python3", "-c", program);
    const tree = await waitUntil(() => {
      const now = readTree(({ pid }) => foreign.has(pid));
      return now.find(({ pid }) => wordsOf(pid) === "sleep 30") && now;
    }, "the thread's child");
    expect(tree.find(({ threads }) => threads === 2)).toBeDefined();
  });

  test("has zombies, which have no memory", async () => {
    const { foreign } = start("sh", "-c", "true & exec sleep 30");
    const tree = await waitUntil(() => {
      const now = readTree(({ pid }) => foreign.has(pid));
      return now.find(({ state }) => state === "Z") && now;
    }, "a zombie");
    const zombie = tree.find(({ state }) => state === "Z")!;
    expect(readMemory(zombie.pid)).toBeNull();
    expect(sampleProcesses([zombie])).toMatchObject({ processes: 1, rss_bytes: 0, peak_bytes: null });
  });
});

describe.skipIf(process.platform !== "linux")("a process", () => {
  test.each([") Z 1 (", "a b", "(", ")) R 2"])("is read whatever its name is: %p", async (name) => {
    using temp = new TempDirectory();
    writeFileSync(temp.at(name), "#!/bin/sh\nsleep 30 & wait\n", { mode: 0o755 });
    const { pid } = start(temp.at(name));
    await waitUntil(() => readFileSync(`/proc/${pid}/comm`, "utf8") === `${name}\n`);
    expect(readProcess(pid)).toMatchObject({ pid, ppid: process.pid, threads: 1 });
  });

  test("that is not there is null", () => {
    expect(readProcess(2 ** 22 + 1)).toBeNull();
    expect(readMemory(2 ** 22 + 1)).toBeNull();
  });

  test("has its memory in bytes, the peak not below what it has now", () => {
    const memory = readMemory("self")!;
    expect(memory.rssBytes).toBeGreaterThan(1 << 20);
    expect(memory.peakBytes).toBeGreaterThanOrEqual(memory.rssBytes);
    expect(Math.abs(memory.rssBytes / process.memoryUsage.rss() - 1)).toBeLessThan(0.5);
  });

  test("cannot pass a name for its memory: a program named 'VmRSS:7 VmHWM:7'", async () => {
    using temp = new TempDirectory();
    writeFileSync(temp.at("VmRSS:7 VmHWM:7"), "#!/bin/sh\nsleep 30 & wait\n", { mode: 0o755 });
    const { pid } = start(temp.at("VmRSS:7 VmHWM:7"));
    await waitUntil(() => readFileSync(`/proc/${pid}/comm`, "utf8").startsWith("VmRSS:7"));
    expect(readMemory(pid)!.rssBytes).toBeGreaterThan(7 * 1024);
  });
});

describe.skipIf(process.platform !== "linux")("a sample", () => {
  test("is the sum over the tree", async () => {
    const { foreign } = start("sh", "-c", "sleep 30 & wait");
    const tree = await waitUntil(() => {
      const now = readTree(({ pid }) => foreign.has(pid));
      return now.length === 2 && wordsOf(now[1]!.pid) === "sleep 30" && now;
    });
    const sample = await waitUntil(() => {
      // A process that faults a page in between the looks is looked at again.
      const each = tree.map(({ pid }) => readMemory(pid)!);
      const now = sampleProcesses(tree)!;
      const same = now.rss_bytes === each[0]!.rssBytes + each[1]!.rssBytes;
      return same && now.peak_bytes === Math.max(each[0]!.peakBytes, each[1]!.peakBytes) && now;
    });
    expect(sample).toMatchObject({ processes: 2, threads: 2 });
  });

  test("is none when nothing lives", () => {
    expect(sampleProcesses([])).toBeNull();
  });
});
