import { describe, expect, test } from "bun:test";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { canEnter, explainStartFailure, interpretWithSh } from "../../src/run/program-lookup.ts";
import { TempDirectory } from "../helpers/temp-directory.ts";

interface Case {
  argv: (string | Uint8Array)[];
  cwd?: string;
  searchPath?: string | null;
}

const lookup = ({ argv, cwd, searchPath = "/no-such" }: Case) => ({
  argv: argv.map((word) => Buffer.from(word as string)),
  cwd: cwd === undefined ? null : Buffer.from(cwd),
  searchPath,
});

const explain = (what: Case, errno: string) => explainStartFailure(lookup(what), errno);

class Programs extends TempDirectory {
  program(name: string, content: string | Uint8Array = "", mode = 0o755): string {
    mkdirSync(dirname(this.at(name)), { recursive: true });
    writeFileSync(this.at(name), content, { mode });
    return this.at(name);
  }
}

describe("a program that is not found exits with 127", () => {
  test("by its name", () => {
    using temp = new Programs();
    expect(explain({ argv: ["no-such-program"], searchPath: temp.path }, "ENOENT")).toEqual({
      ...{ exitCode: 127, errno: "ENOENT", message: "'no-such-program' is not on PATH" },
    });
  });

  test("by its path", () => {
    expect(explain({ argv: ["./no/such"] }, "ENOENT")).toEqual({
      ...{ exitCode: 127, errno: "ENOENT", message: "'./no/such' does not exist" },
    });
  });

  test("when its name is empty", () => {
    expect(explain({ argv: [""], searchPath: "/bin" }, "ENOENT")).toMatchObject({ exitCode: 127, errno: "ENOENT" });
  });

  test("when only a directory on PATH has its name", () => {
    using temp = new Programs();
    mkdirSync(temp.at("prog"));
    expect(explain({ argv: ["prog"], searchPath: temp.path }, "ENOENT").exitCode).toBe(127);
  });

  test("with a name that is no UTF-8 shown as one line", () => {
    expect(explain({ argv: [Uint8Array.from([0x61, 0xff])] }, "ENOENT").message).toBe("'a\\xff' is not on PATH");
  });
});

describe("a program that is found and cannot be executed exits with 126", () => {
  test.each(["EACCES", "EPERM"])("because it is not executable: %s", (errno) => {
    using temp = new Programs();
    const path = temp.program("prog", "", 0o644);
    const expected = { exitCode: 126, errno, message: `'${path}' is not executable (${errno})` };
    expect(explain({ argv: [path] }, errno)).toEqual(expected);
    expect(explain({ argv: ["prog"], searchPath: `/no-such:${temp.path}` }, errno)).toEqual(expected);
  });

  test("because it is a directory", () => {
    using temp = new Programs();
    expect(explain({ argv: [temp.path] }, "EACCES")).toEqual({
      ...{ exitCode: 126, errno: "EACCES", message: `'${temp.path}' is a directory` },
    });
  });

  test.each([
    ["#!/no/such/interpreter\n", "/no/such/interpreter"],
    ["#!/no/such/interpreter -x -y\nbody\n", "/no/such/interpreter"],
    ["#! \t/no/such/interpreter\n", "/no/such/interpreter"],
    ["#!/no/such/interpreter", "/no/such/interpreter"],
    ["#!/no/such/\xe4\n", "/no/such/\\xe4"],
  ])("because its interpreter does not exist: %p", (content, interpreter) => {
    using temp = new Programs();
    const path = temp.program("script", Buffer.from(content, "latin1"));
    expect(explain({ argv: [path] }, "ENOENT")).toEqual({
      ...{ exitCode: 126, errno: "ENOENT" },
      message: `the interpreter '${interpreter}' of '${path}' does not exist`,
    });
  });

  test("because a carriage return belongs to the interpreter's name: '#!/bin/sh\\r\\n'", () => {
    using temp = new Programs();
    const path = temp.program("script", "#!/bin/sh\r\nexit 0\r\n");
    expect(explain({ argv: [path] }, "ENOENT").message).not.toContain("the interpreter '/bin/sh' of");
  });

  test.skipIf(process.platform !== "linux")("because the loader of an ELF image does not exist", () => {
    using temp = new Programs();
    const image = readFileSync("/bin/true");
    const at = image.indexOf("ld-linux") >= 0 ? image.indexOf("ld-linux") : image.indexOf("ld-musl");
    expect(at).toBeGreaterThan(0);
    image.write("ld-none!", at);
    const path = temp.program("broken", image);
    expect(() => Bun.spawnSync([path])).toThrow("ENOENT");
    const { exitCode, message } = explain({ argv: [path] }, "ENOENT");
    expect(exitCode).toBe(126);
    expect(message).toMatch(/^the interpreter '\/[^']*\/ld-none![^']*' of '.*\/broken' does not exist$/);
  });

  test("because it needs a file that nobody can name", () => {
    using temp = new Programs();
    const path = temp.program("odd", "no script");
    expect(explain({ argv: [path] }, "ENOENT")).toMatchObject({
      ...{ exitCode: 126, message: `'${path}' needs a file that does not exist` },
    });
  });

  test.each([
    ["ENOEXEC", "has a format the system cannot run (ENOEXEC)"],
    ["ELIBBAD", "has a format the system cannot run (ELIBBAD)"],
    ["ETXTBSY", "is open for writing: text file busy (ETXTBSY)"],
    ["ELOOP", "could not be started (ELOOP)"],
    ["E999", "could not be started (E999)"],
  ])("because of %s", (errno, rest) => {
    using temp = new Programs();
    const path = temp.program("prog");
    expect(explain({ argv: [path] }, errno)).toEqual({ exitCode: 126, errno, message: `'${path}' ${rest}` });
  });

  test("because its arguments are too long", () => {
    using temp = new Programs();
    expect(explain({ argv: [temp.program("prog")] }, "E2BIG")).toMatchObject({
      ...{ exitCode: 126, message: "the arguments and the environment are too long for the system (E2BIG)" },
    });
  });
});

describe("what is no fault of the program exits with 125", () => {
  test.each(["EAGAIN", "ENOMEM", "EMFILE", "ENFILE"])("no room left: %s", (errno) => {
    expect(explain({ argv: ["/bin/true"] }, errno)).toEqual({
      ...{ exitCode: 125, errno, message: `the system has no room left to start it (${errno})` },
    });
  });

  test("a working directory that is not there, or is a file", () => {
    using temp = new Programs();
    for (const cwd of [temp.at("none"), temp.program("file")]) {
      const { exitCode, message } = explain({ argv: ["/bin/true"], cwd }, "ENOENT");
      expect(exitCode).toBe(125);
      expect(message).toContain(`'${cwd}'`);
    }
  });
});

describe("a lookup", () => {
  test("goes along PATH, an empty entry is the working directory", () => {
    using temp = new Programs();
    temp.program("cwd/prog");
    const message = (searchPath: string) =>
      explain({ argv: ["prog"], cwd: temp.at("cwd"), searchPath }, "EACCES").message;
    expect(message("/no-such:")).toContain(`'${temp.at("cwd/prog")}'`);
    expect(message(":/no-such")).toContain(`'${temp.at("cwd/prog")}'`);
    expect(message("/no-such")).toContain("is not on PATH");
  });

  test("takes the first file on PATH", () => {
    using temp = new Programs();
    const first = temp.program("a/prog");
    temp.program("b/prog");
    mkdirSync(temp.at("dir/prog"), { recursive: true });
    const searchPath = [temp.at("dir"), temp.at("a"), temp.at("b")].join(":");
    expect(explain({ argv: ["prog"], searchPath }, "EACCES").message).toContain(`'${first}'`);
  });

  test("uses /bin and /usr/bin where PATH is not set", () => {
    expect(explain({ argv: ["true"], searchPath: null }, "EACCES").message).toMatch(/^'(\/usr)?\/bin\/true' /);
  });

  test("takes a relative path from the child's working directory", () => {
    using temp = new Programs();
    temp.program("sub/prog");
    expect(explain({ argv: ["./prog"], cwd: temp.at("sub") }, "EACCES").exitCode).toBe(126);
    expect(explain({ argv: ["./prog"], cwd: temp.path }, "EACCES").exitCode).toBe(127);
  });
});

describe("interpretWithSh", () => {
  test("is sh with the file's path and the other arguments", () => {
    using temp = new Programs();
    const path = temp.program("script");
    const argv = interpretWithSh(lookup({ argv: ["script", "-x", ""], searchPath: temp.path }));
    expect(argv?.map(String)).toEqual(["/bin/sh", path, "-x", ""]);
  });

  test("is null for what is not there", () => {
    expect(interpretWithSh(lookup({ argv: ["no-such"] }))).toBeNull();
  });
});

test("canEnter is true for a directory, and for nothing else", () => {
  using temp = new Programs();
  expect(canEnter(temp.bytesAt())).toBe(true);
  expect(canEnter(Buffer.from(temp.program("file")))).toBe(false);
  expect(canEnter(temp.bytesAt("none"))).toBe(false);
});
