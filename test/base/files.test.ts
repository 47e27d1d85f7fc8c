/** Run twice: with the C library, and by the last test once more in a process of its own without it. */
import { afterAll, describe, expect, test } from "bun:test";
import {
  closeSync,
  existsSync,
  fchmodSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  readSync,
  type Stats,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import * as files from "../../src/base/files.ts";
import { libc } from "../../src/base/libc.ts";
import { randomBytes } from "../helpers/random-bytes.ts";
import { TempDirectory } from "../helpers/temp-directory.ts";
import { thrownBy } from "../helpers/thrown.ts";

const directory = new TempDirectory();
afterAll(() => directory[Symbol.dispose]());

let places = 0;
/** A directory of this test alone. */
function newPlace(): string {
  places += 1;
  const place = directory.at(`place-${places}`);
  mkdirSync(place);
  return place;
}

function withFile(path: string, action: (fd: number) => void, flags = "r"): void {
  const fd = openSync(path, flags);
  try {
    action(fd);
  } finally {
    closeSync(fd);
  }
}

/** A name that is not UTF-8, which only bytes can tell. */
const ODD_NAME = Buffer.from([0x6f, 0x64, 0x64, 0xff, 0xfe]);
const below = (place: string, name: Uint8Array) => Buffer.concat([Buffer.from(`${place}/`), name]);

describe("createFile", () => {
  test("makes a new file with its mode, open for writing", () => {
    const path = join(newPlace(), "new");
    const fd = files.createFile(path, 0o600);
    files.writeWhole(fd, Buffer.from("content"));
    files.closeFile(fd);
    expect(readFileSync(path, "utf8")).toBe("content");
    expect(statSync(path).mode & 0o7777).toBe(0o600);
  });

  test("refuses what exists, and leaves it as it is", () => {
    const path = join(newPlace(), "old");
    writeFileSync(path, "old");
    expect(thrownBy(() => files.createFile(path, 0o600)).code).toBe("EEXIST");
    expect(readFileSync(path, "utf8")).toBe("old");
  });

  test("refuses a symlink, and creates nothing at its target", () => {
    const place = newPlace();
    symlinkSync(join(place, "target"), join(place, "link"));
    expect(thrownBy(() => files.createFile(join(place, "link"), 0o600)).code).toBe("EEXIST");
    expect(existsSync(join(place, "target"))).toBe(false);
  });

  test("names the errno of a directory that is not there", () => {
    expect(thrownBy(() => files.createFile(join(newPlace(), "no", "file"), 0o600)).code).toBe("ENOENT");
    expect(thrownBy(() => files.createFile("/proc/version/file", 0o600)).code).toBe("ENOTDIR");
    expect(thrownBy(() => files.createFile(join(newPlace(), "n".repeat(300)), 0o600)).code).toBe("ENAMETOOLONG");
  });

  test("takes a path that is no UTF-8", () => {
    const place = newPlace();
    files.closeFile(files.createFile(below(place, ODD_NAME), 0o600));
    expect(readdirSync(Buffer.from(place), { encoding: "buffer" })).toEqual([ODD_NAME]);
  });

  test.skipIf(libc === null)("does not hand the descriptor to other programs", () => {
    const fd = files.createFile(join(newPlace(), "new"), 0o600);
    const flags = /^flags:\s+([0-7]+)$/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, "utf8"))?.[1];
    files.closeFile(fd);
    expect(Number.parseInt(flags ?? "0", 8) & 0o2000000).toBe(0o2000000);
  });
});

describe("reading and writing", () => {
  test("readOnce gives at most the buffer, then 0 at the end", () => {
    const path = join(newPlace(), "file");
    writeFileSync(path, "abcde");
    withFile(path, (fd) => {
      const buffer = new Uint8Array(new ArrayBuffer(3));
      const counts = [1, 2, 3].map(() => files.readOnce(fd, buffer));
      expect(counts).toEqual([3, 2, 0]);
      expect(Buffer.from(buffer).toString()).toBe("dec");
    });
  });

  test("readOnce and writeOnce throw the errno's name", () => {
    const buffer = new Uint8Array(new ArrayBuffer(8));
    expect(thrownBy(() => files.readOnce(99_999, buffer)).code).toBe("EBADF");
    expect(thrownBy(() => files.writeOnce(99_999, buffer)).code).toBe("EBADF");
    withFile(newPlace(), (fd) => expect(thrownBy(() => files.readOnce(fd, buffer)).code).toBe("EISDIR"));
    withFile("/dev/full", (fd) => expect(thrownBy(() => files.writeOnce(fd, buffer)).code).toBe("ENOSPC"), "w");
    withFile("/dev/full", (fd) => expect(thrownBy(() => files.writeWhole(fd, buffer)).code).toBe("ENOSPC"), "w");
  });

  test("writeWhole writes every byte, and nothing for nothing", () => {
    const path = join(newPlace(), "file");
    const bytes = randomBytes(3_000_001, 1);
    withFile(
      path,
      (fd) => {
        files.writeWhole(fd, new Uint8Array(0));
        files.writeWhole(fd, bytes.subarray(1));
      },
      "w",
    );
    expect(readFileSync(path).equals(bytes.subarray(1))).toBe(true);
  });

  test("makeReadOnly leaves the owner nothing but reading", () => {
    const path = join(newPlace(), "file");
    withFile(path, files.makeReadOnly, "w");
    expect(statSync(path).mode & 0o7777).toBe(0o400);
    expect(thrownBy(() => files.makeReadOnly(99_999)).code).toBe("EBADF");
  });
});

describe("readWhole", () => {
  test.each([0, 1, 32 * 1024 - 1, 32 * 1024, 32 * 1024 + 1, 1_500_000])("gives all %p bytes of a file", (length) => {
    const path = join(newPlace(), "file");
    const bytes = randomBytes(length, 2);
    writeFileSync(path, bytes);
    const read = files.readWhole(path);
    expect(read?.length).toBe(length);
    expect(read?.equals(bytes)).toBe(true);
  });

  test("gives files of /proc, which have no size", () => {
    expect(files.readWhole("/proc/self/cmdline")).toEqual(readFileSync("/proc/self/cmdline"));
    // Longer than one read.
    expect(files.readWhole("/proc/kallsyms")?.length).toBe(readFileSync("/proc/kallsyms").length);
  });

  test("keeps what it gave when it reads again", () => {
    const place = newPlace();
    writeFileSync(join(place, "a"), "first");
    writeFileSync(join(place, "b"), "other");
    const first = files.readWhole(join(place, "a"));
    files.readWhole(join(place, "b"));
    expect(first?.toString()).toBe("first");
  });

  test("has null for what cannot be read", () => {
    const place = newPlace();
    expect(files.readWhole(join(place, "none"))).toBeNull();
    expect(files.readWhole(place)).toBeNull();
  });

  test.skipIf(libc === null)("has null for a symlink, whatever it names", () => {
    const place = newPlace();
    writeFileSync(join(place, "target"), "content");
    symlinkSync("target", join(place, "link"));
    expect(files.readWhole(join(place, "link"))).toBeNull();
  });

  test("readHead stops at its limit", () => {
    const path = join(newPlace(), "file");
    const bytes = randomBytes(100_000, 3);
    writeFileSync(path, bytes);
    for (const limit of [0, 1, 4096, 32 * 1024 + 5, 100_000, 200_000]) {
      const head = files.readHead(path, limit);
      expect([limit, head?.length, head?.equals(bytes.subarray(0, limit))]).toEqual([
        limit,
        Math.min(limit, 100_000),
        true,
      ]);
    }
    expect(files.readHead(join(newPlace(), "none"), 10)).toBeNull();
  });

  test("readProcText gives a record of /proc as text", () => {
    expect(files.readProcText("/proc/self/stat")?.split(" ")[0]).toBe(String(process.pid));
    expect(files.readProcText("/proc/self/none")).toBeNull();
  });
});

describe("listDirectory", () => {
  const sorted = (names: string[] | null) => names?.sort();

  test.each([0, 1, 3000])(
    "gives the same %p names as node's",
    (count) => {
      const place = newPlace();
      for (let i = 0; i < count; i += 1) writeFileSync(join(place, `name ${i} ${"ä".repeat(i % 60)}`), "");
      expect(sorted(files.listDirectory(place))).toEqual(readdirSync(place).sort());
      expect(files.listDirectory(place)).toHaveLength(count);
    },
    30_000,
  );

  test("gives hidden names, but neither . nor ..", () => {
    const place = newPlace();
    for (const name of [".git", "..a", "..."]) mkdirSync(join(place, name));
    expect(sorted(files.listDirectory(place))).toEqual(["...", "..a", ".git"]);
  });

  test("gives names that are no UTF-8 as text, one for each", () => {
    const place = newPlace();
    writeFileSync(below(place, ODD_NAME), "");
    writeFileSync(join(place, "plain"), "");
    const names = files.listDirectory(place);
    expect(names).toHaveLength(2);
    expect(names).toContain("plain");
    expect(names?.find((name) => name !== "plain")?.startsWith("odd")).toBe(true);
  });

  test("gives /proc/self/fd, in which each number is open", () => {
    const names = files.listDirectory("/proc/self/fd");
    withFile("/dev/null", (fd) => {
      expect(names).not.toContain(String(fd === 0 ? -1 : 99_999));
      expect(files.listDirectory("/proc/self/fd")).toContain(String(fd));
    });
  });

  test("has null for what is no directory", () => {
    const path = join(newPlace(), "file");
    writeFileSync(path, "");
    expect(files.listDirectory(path)).toBeNull();
    expect(files.listDirectory(`${path}-none`)).toBeNull();
  });

  test("leaves no descriptor open, whether it can list or not", () => {
    const place = newPlace();
    const open = () => readdirSync("/proc/self/fd").length;
    const before = open();
    for (let i = 0; i < 20; i += 1) {
      files.listDirectory(place);
      files.listDirectory(join(place, "none"));
      files.readWhole(place);
      files.readWhole("/proc/self/stat");
      files.readProcText("/proc/self/stat");
      files.countProcesses();
    }
    expect(open()).toBe(before);
  });

  test("countProcesses counts those that /proc shows", () => {
    const count = () => readdirSync("/proc").filter((name) => /^[0-9]/.test(name)).length;
    // Processes come and go: between two equal counts ours has to be the same.
    let [before, ours, after] = [0, -1, 1];
    for (let i = 0; i < 100 && (before !== after || ours === -1); i += 1) {
      [before, ours, after] = [count(), files.countProcesses() ?? -1, count()];
    }
    expect(ours).toBe(before);
  });
});

describe("state of a file", () => {
  function expected(stat: Stats): Partial<files.FileState> {
    return { mode: stat.mode & 0o7777, uid: stat.uid, size: stat.size };
  }

  test("has the fields that node's stat gives", () => {
    const place = newPlace();
    writeFileSync(join(place, "file"), "12345");
    withFile(join(place, "file"), (fd) => fchmodSync(fd, 0o4640));
    symlinkSync("file", join(place, "link"));
    Bun.spawnSync(["mkfifo", join(place, "fifo")]);
    const paths = ["file", "link", "fifo"]
      .map((name) => join(place, name))
      .concat(place, "/dev/null", "/proc/self/stat");
    const kinds = ["file", "symlink", "fifo", "directory", "character", "file"];
    expect(paths.map((path) => files.linkState(path)?.kind as string)).toEqual(kinds);
    for (const path of paths) {
      expect([path, files.linkState(path)]).toEqual([path, expect.objectContaining(expected(lstatSync(path)))]);
      expect([path, files.fileState(path)]).toEqual([path, expect.objectContaining(expected(statSync(path)))]);
    }
    expect(files.fileState(join(place, "link"))?.kind).toBe("file");
  });

  test("has the numbers of a device", () => {
    expect(files.fileState("/dev/null")).toMatchObject({ kind: "character", major: 1, minor: 3 });
    expect(files.fileState("/dev/full")).toMatchObject({ kind: "character", major: 1, minor: 7 });
  });

  test("has sizes beyond 32 bits", () => {
    const path = join(newPlace(), "sparse");
    Bun.spawnSync(["truncate", "-s", String(5 * 2 ** 30 + 7), path]);
    expect(files.fileState(path)?.size).toBe(5 * 2 ** 30 + 7);
  });

  test("of a descriptor is that of the file behind it", () => {
    const path = join(newPlace(), "file");
    writeFileSync(path, "123");
    withFile(path, (fd) => {
      unlinkSync(path);
      expect(files.descriptorState(fd)).toMatchObject({ kind: "file", ...expected(fstatSync(fd)) });
    });
    expect(files.descriptorState(99_999)).toBeNull();
  });

  test("of a socket", async () => {
    const path = join(newPlace(), "socket");
    const server = createServer().listen(path);
    await new Promise((resolve) => server.once("listening", resolve));
    const state = files.fileState(path);
    server.close();
    expect(state?.kind).toBe("socket");
  });

  test("is null where nothing is, at the end of a dangling link as well", () => {
    const place = newPlace();
    symlinkSync("none", join(place, "link"));
    expect(files.fileState(join(place, "link"))).toBeNull();
    expect(files.linkState(join(place, "link"))?.kind).toBe("symlink");
    expect(files.linkState(join(place, "none"))).toBeNull();
    expect(files.linkState("")).toBeNull();
    expect(files.pathExists(join(place, "link"))).toBe(false);
    expect(files.pathExists(place)).toBe(true);
  });

  test("ownUserId is who we are", () => {
    expect(files.ownUserId()).toBe(process.getuid?.() ?? -1);
  });
});

describe("directories and names", () => {
  test("makeDirectory makes one level, and refuses what exists", () => {
    const place = newPlace();
    files.makeDirectory(join(place, "a"), 0o700);
    expect(statSync(join(place, "a")).mode & 0o7777).toBe(0o700);
    writeFileSync(join(place, "file"), "");
    symlinkSync("none", join(place, "link"));
    for (const name of ["a", "file", "link"]) {
      expect([name, thrownBy(() => files.makeDirectory(join(place, name), 0o700)).code]).toEqual([name, "EEXIST"]);
    }
    expect(thrownBy(() => files.makeDirectory(join(place, "x", "y"), 0o700)).code).toBe("ENOENT");
    expect(existsSync(join(place, "none"))).toBe(false);
  });

  test("makeDirectories makes what is missing, each level with the mode", () => {
    const place = newPlace();
    const path = Buffer.concat([below(place, ODD_NAME), Buffer.from("/b/c")]);
    files.makeDirectories(path, 0o700);
    expect(statSync(path).isDirectory()).toBe(true);
    expect(statSync(below(place, ODD_NAME)).mode & 0o7777).toBe(0o700);
    files.makeDirectories(path, 0o700);
    files.makeDirectories(Buffer.from("/"), 0o700);
  });

  test("makeDirectories names the errno of what stands in the way", () => {
    const place = newPlace();
    writeFileSync(join(place, "file"), "");
    expect(thrownBy(() => files.makeDirectories(Buffer.from(join(place, "file", "a", "b")), 0o700)).code).toBe(
      "ENOTDIR",
    );
  });

  test("makeDirectories names the errno of a dangling link above: 'link -> none', 'link/a'", () => {
    const place = newPlace();
    symlinkSync("none", join(place, "link"));
    expect(thrownBy(() => files.makeDirectories(Buffer.from(join(place, "link", "a")), 0o700)).code).toBe("ENOENT");
  });

  test("renameFile replaces, and names the errno of a source that is not there", () => {
    const place = newPlace();
    writeFileSync(join(place, "new"), "new");
    writeFileSync(join(place, "old"), "old");
    files.renameFile(join(place, "new"), join(place, "old"));
    expect(readFileSync(join(place, "old"), "utf8")).toBe("new");
    expect(thrownBy(() => files.renameFile(join(place, "new"), join(place, "x"))).code).toBe("ENOENT");
  });

  test("a symlink is made with its text and read back", () => {
    const place = newPlace();
    files.makeSymlink("../somewhere else", join(place, "link"));
    expect(readlinkSync(join(place, "link"))).toBe("../somewhere else");
    expect(files.readSymlink(join(place, "link"))?.toString()).toBe("../somewhere else");
    expect(thrownBy(() => files.makeSymlink("x", join(place, "link"))).code).toBe("EEXIST");
    expect(files.readSymlink(place)).toBeNull();
    expect(files.readSymlink(join(place, "none"))).toBeNull();
  });

  test("removeLeftover removes a file, and is content when there is none", () => {
    const place = newPlace();
    writeFileSync(join(place, "file"), "");
    files.removeLeftover(join(place, "file"));
    files.removeLeftover(join(place, "file"));
    expect(readdirSync(place)).toEqual([]);
  });

  test.skipIf(libc === null)("removeEmptyDirectory leaves a directory that holds something", () => {
    const place = newPlace();
    mkdirSync(join(place, "empty"));
    mkdirSync(join(place, "full", "inner"), { recursive: true });
    files.removeEmptyDirectory(join(place, "empty"));
    files.removeEmptyDirectory(join(place, "full"));
    expect(readdirSync(place)).toEqual(["full"]);
  });
});

describe.skipIf(libc === null)("reserved space", () => {
  test("does not change what is read, and is given back", () => {
    const path = join(newPlace(), "file");
    const fd = files.createFile(path, 0o600);
    files.reserveSpace(fd, 1 << 20);
    files.writeWhole(fd, Buffer.from("content"));
    expect(readFileSync(path, "utf8")).toBe("content");
    const reserved = fstatSync(fd).blocks;
    files.cutToSize(fd);
    expect(fstatSync(fd).blocks).toBeLessThanOrEqual(reserved);
    expect(fstatSync(fd).blocks * 512).toBeLessThan(1 << 20);
    expect(readFileSync(path, "utf8")).toBe("content");
    files.closeFile(fd);
  });

  test("is not asked of what cannot reserve", () => {
    const [reader, writer] = [openSync("/dev/null", "r"), openSync("/dev/null", "w")];
    files.reserveSpace(writer, 1 << 20);
    expect(readSync(reader, Buffer.alloc(1))).toBe(0);
    closeSync(reader);
    closeSync(writer);
  });
});

test.skipIf(libc === null)(
  "the same rules hold without the C library",
  () => {
    const preload = join(import.meta.dir, "../fixtures/without-ffi.ts");
    const { exitCode, stderr } = Bun.spawnSync([process.execPath, "test", "--preload", preload, import.meta.path], {
      cwd: join(import.meta.dir, "../.."),
      stdin: "ignore",
    });
    const summary = stderr.toString();
    expect({ exitCode, summary: exitCode === 0 ? "" : summary }).toEqual({ exitCode: 0, summary: "" });
    // The rules that need the C library were skipped: it really was not there.
    expect(summary).toMatch(/^ *[1-9][0-9]* skip$/m);
  },
  60_000,
);
