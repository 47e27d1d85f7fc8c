import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { artifactsPath, groupOf, join, runPath } from "../../src/store/layout.ts";

const group = (...argv: (string | Uint8Array)[]) => groupOf(argv.map((word) => Buffer.from(word as string)));

describe("groupOf", () => {
  test("is the sanitized basename, and the first 12 digits of the hash over the normalized argv", () => {
    const hash = new Bun.CryptoHasher("sha256").update("pytest\0-q\0").digest("hex");
    expect(group("pytest", "-q")).toEqual({ executable: "pytest", invocation: hash.slice(0, 12) });
    // As docs/store.md shows it.
    expect(group("pytest", "-q").invocation).toBe("304447fb6efc");
  });

  test("is the same for a program by its name and by any of its paths", () => {
    expect(group("/usr/bin/pytest", "-q")).toEqual(group("pytest", "-q"));
    expect(group("./pytest", "-q")).toEqual(group("pytest", "-q"));
  });

  test("tells arguments apart that are the same text when they are joined", () => {
    const all = [
      ["p", "a", "b c"],
      ["p", "a b", "c"],
      ["p", "a b c"],
      ["p", "a", "b", "c"],
      ["p", "a", "b c", ""],
      ["p", "", "a", "b c"],
      ["p a", "b c"],
      ["pa", "b c"],
      ["p"],
      ["p", ""],
      ["p", "", ""],
    ];
    expect(new Set(all.map((argv) => group(...argv).invocation)).size).toBe(all.length);
  });

  test("keeps the paths of arguments apart: only the program counts by its basename", () => {
    expect(group("p", "/a/x").invocation).not.toBe(group("p", "x").invocation);
  });

  test("tells arguments apart that are no UTF-8", () => {
    expect(group("p", Buffer.from([0xff])).invocation).not.toBe(group("p", Buffer.from([0xfe])).invocation);
    expect(group("p", Buffer.from([0xff])).invocation).not.toBe(group("p", "\uFFFD").invocation);
  });

  test.each([
    ["", "_"],
    [".", "_"],
    ["..", "_."],
    ["...", "_.."],
    [".hidden", "_hidden"],
    ["/", "_"],
    ["/bin/", "_"],
    ["../..", "_."],
    ["a b", "a_b"],
    ["a\nb", "a_b"],
    ["g++", "g__"],
    ["ä", "__"],
    ["python3.12", "python3.12"],
    ["-n", "-n"],
    ["x".repeat(200), "x".repeat(64)],
    [Buffer.from([0x61, 0xff, 0x62]), "a_b"],
    ["latest", "latest"],
  ])("makes a safe path component of %p", (program, executable) => {
    expect(group(program).executable).toBe(executable);
  });

  test("makes a safe path component of anything", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 100 }), (program) => {
        const { executable, invocation } = groupOf([program]);
        expect(executable).toMatch(/^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$/);
        expect(invocation).toMatch(/^[0-9a-f]{12}$/);
      }),
      { numRuns: 1000 },
    );
  });

  test("cuts the name and not the identity: two long names that begin alike are two groups", () => {
    const [a, b] = [group(`${"x".repeat(100)}a`), group(`${"x".repeat(100)}b`)];
    expect(a.executable).toBe(b.executable);
    expect(a.invocation).not.toBe(b.invocation);
  });
});

describe("join", () => {
  test("keeps the bytes of a directory that is no UTF-8", () => {
    const odd = Buffer.from([0x2f, 0xff]);
    expect(join(odd, "a", "b")).toEqual(Buffer.concat([odd, Buffer.from("/a/b")]));
  });

  test("does not double the slash of the file system's root", () => {
    expect(join(Buffer.from("/"), "a").toString()).toBe("/a");
  });
});

test("runs are below artifacts, by program, invocation and id", () => {
  const root = Buffer.from("/p/.agent-shell");
  expect(artifactsPath(root).toString()).toBe("/p/.agent-shell/artifacts");
  expect(runPath(root, { executable: "e", invocation: "i" }, "run_x").toString()).toBe(
    "/p/.agent-shell/artifacts/e/i/run_x",
  );
});
