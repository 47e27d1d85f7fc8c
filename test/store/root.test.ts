import { describe, expect, test } from "bun:test";
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type RootChoice, type RootEnvironment, rootChoices } from "../../src/store/root.ts";
import { TempDirectory } from "../helpers/temp-directory.ts";

/** A tree whose outermost directory is the temporary one. No entry above it counts as long as one inside does. */
class Tree extends TempDirectory {
  readonly home = this.directory("home");

  directory(path: string): string {
    mkdirSync(this.at(path), { recursive: true });
    return this.at(path);
  }

  file(path: string): void {
    mkdirSync(dirname(this.at(path)), { recursive: true });
    writeFileSync(this.at(path), "");
  }

  choices(cwd: string | Uint8Array, changes: Partial<RootEnvironment> = {}): RootChoice[] {
    return rootChoices({
      cwd: typeof cwd === "string" ? Buffer.from(this.directory(cwd)) : cwd,
      given: null,
      home: Buffer.from(this.home),
      stateHome: null,
      temporary: Buffer.from("/tmp"),
      uid: 1000,
      ...changes,
    });
  }

  /** `rule place marker` of the first choice, the place relative to the tree. */
  first(cwd: string, changes?: Partial<RootEnvironment>): string {
    const { reason, place, marker, root } = this.choices(cwd, changes)[0]!;
    expect(root.toString()).toBe(`${place.toString()}/.agent-shell`);
    const relative = place.toString().slice(this.path.length + 1);
    return [reason, relative === "" ? "." : relative, marker].join(" ");
  }
}

const hashOf = (path: string | Uint8Array) => new Bun.CryptoHasher("sha256").update(path).digest("hex").slice(0, 12);

describe("a root is found", () => {
  test("by the marker of its own", () => {
    using tree = new Tree();
    tree.file("a/.agent-shell-root");
    expect(tree.first("a/b/c")).toBe("root-marker a .agent-shell-root");
    expect(tree.first("a")).toBe("root-marker a .agent-shell-root");
  });

  test.each([".git", ".hg", ".jj", ".svn"])("by %s, a directory or a file", (name) => {
    using tree = new Tree();
    tree.directory(`a/${name}`);
    tree.file(`b/${name}`);
    expect(tree.first("a/x/y")).toBe(`vcs a ${name}`);
    expect(tree.first("b/x/y")).toBe(`vcs b ${name}`);
  });

  test.each([
    ...["package.json", "bun.lock", "pnpm-workspace.yaml", "pyproject.toml", "uv.lock", "setup.py", "go.mod"],
    ...["requirements.txt", "Cargo.toml", "pom.xml", "build.gradle", "build.gradle.kts", "Gemfile", "composer.json"],
    ...["mix.exs", "CMakeLists.txt", "Makefile", "meson.build", "flake.nix", "deno.json", "Shop.sln", "a.b.csproj"],
  ])("by the project marker %s", (name) => {
    using tree = new Tree();
    tree.file(`a/${name}`);
    expect(tree.first("a/x")).toBe(`project a ${name}`);
  });

  test.each(["README", "README.md", "README.de.txt"])("by %s beside src", (name) => {
    using tree = new Tree();
    tree.file(`a/${name}`);
    tree.directory("a/src");
    expect(tree.first("a/src/x")).toBe(`readme-src a ${name}`);
  });

  test("in the working directory, where nothing is marked", () => {
    using tree = new Tree();
    expect(tree.first("a/b")).toBe("cwd a/b ");
  });

  test.each([
    ["README alone", ["a/README.md"]],
    ["src alone", ["a/src/x"]],
    ["README beside a file src", ["a/README.md", "a/src"]],
    ["readme in lower case", ["a/readme.md", "a/src/x"]],
    ["a marker's name with more behind it", ["a/package.json.bak", "a/.github/x", "a/Makefile~", "a/x.sln.user"]],
    ["a root beside it", ["a/.agent-shell/artifacts/x"]],
    ["a marker below the level", ["a/sub/.git/x", "a/other/package.json"]],
  ])("not by %s", (_, files) => {
    using tree = new Tree();
    for (const file of files) tree.file(file);
    expect(tree.first("a/b")).toBe("cwd a/b ");
  });

  test("through a symlink that is a marker, and a src that is a symlink to a directory", () => {
    using tree = new Tree();
    symlinkSync("elsewhere", join(tree.directory("a"), ".git"));
    tree.file("b/README");
    symlinkSync(tree.directory("sources"), tree.at("b/src"));
    expect(tree.first("a/x")).toBe("vcs a .git");
    expect(tree.first("b/x")).toBe("readme-src b README");
  });
});

describe("of several marked directories", () => {
  test.each([
    [".agent-shell-root", "root-marker"],
    [".git", "vcs"],
    ["go.mod", "project"],
  ])("the nearest with %s wins", (marker, rule) => {
    using tree = new Tree();
    for (const place of ["a", "a/b", "a/b/c"]) tree.file(`${place}/${marker}`);
    expect(tree.first("a/b/x/y")).toBe(`${rule} a/b ${marker}`);
  });

  test("the nearest README with src wins", () => {
    using tree = new Tree();
    for (const place of ["a", "a/b"]) tree.file(`${place}/README`);
    for (const place of ["a", "a/b"]) tree.directory(`${place}/src`);
    expect(tree.first("a/b/x")).toBe("readme-src a/b README");
  });

  test("a stronger rule wins at any distance", () => {
    using tree = new Tree();
    const cwd = "a/b/c/d/e";
    expect(tree.first(cwd)).toBe(`cwd ${cwd} `);
    tree.file("a/b/c/d/README");
    tree.directory("a/b/c/d/src");
    expect(tree.first(cwd)).toBe("readme-src a/b/c/d README");
    tree.file("a/b/c/Makefile");
    expect(tree.first(cwd)).toBe("project a/b/c Makefile");
    tree.file("a/b/.git");
    expect(tree.first(cwd)).toBe("vcs a/b .git");
    tree.file("a/.agent-shell-root");
    expect(tree.first(cwd)).toBe("root-marker a .agent-shell-root");
  });

  test("a version control above beats a project marker in the working directory", () => {
    using tree = new Tree();
    tree.file("a/.git/x");
    tree.file("a/packages/web/package.json");
    expect(tree.first("a/packages/web")).toBe("vcs a .git");
  });

  test("the marker of an outer directory beats .git at every level below it", () => {
    using tree = new Tree();
    tree.file("a/.agent-shell-root");
    tree.directory("a/b/.git");
    tree.directory("a/b/c/.git");
    expect(tree.first("a/b/c")).toBe("root-marker a .agent-shell-root");
  });

  test("nested calls meet at one root", () => {
    using tree = new Tree();
    tree.directory("a/.git");
    const places = ["a", "a/b", "a/b/c/d"].map((cwd) => tree.first(cwd));
    expect(new Set(places).size).toBe(1);
  });
});

describe("the home directory", () => {
  test("is passed over with its markers, and what is above it is looked at", () => {
    using tree = new Tree();
    for (const marker of [".agent-shell-root", ".git", "package.json"]) tree.file(`home/${marker}`);
    expect(tree.first("home/code/x")).toBe("cwd home/code/x ");
    tree.directory(".git");
    expect(tree.first("home/code/x")).toBe("vcs . .git");
  });

  test("is passed over when it is written with slashes at its end", () => {
    using tree = new Tree();
    tree.file("home/.git");
    expect(tree.first("home/code", { home: Buffer.from(`${tree.home}//`) })).toBe("cwd home/code ");
  });

  test("does not hide what is below it", () => {
    using tree = new Tree();
    tree.file("home/code/.git");
    expect(tree.first("home/code/x")).toBe("vcs home/code .git");
  });

  test("is never chosen: the first place is the user's state", () => {
    using tree = new Tree();
    tree.file("home/.git");
    expect(tree.choices("home").map(({ reason }) => reason)).toEqual(["state-home", "temporary"]);
  });

  test("is one directory and not those whose names begin alike", () => {
    using tree = new Tree();
    tree.file("home2/.git");
    expect(tree.first("home2/x")).toBe("vcs home2 .git");
  });

  test("may be unknown", () => {
    using tree = new Tree();
    tree.file("home/.git");
    expect(tree.first("home/x", { home: null })).toBe("vcs home .git");
    expect(tree.choices("home", { home: null }).map(({ reason }) => reason)).toEqual(["vcs", "temporary"]);
  });
});

test("the file system's root is never chosen", () => {
  using tree = new Tree();
  const choices = tree.choices(Buffer.from("/"));
  expect(choices.map(({ reason }) => reason)).toEqual(["state-home", "temporary"]);
  expect(choices[0]?.root.toString()).toBe(`${tree.home}/.local/state/agent-shell/${hashOf("/")}`);
});

describe("the walk", () => {
  test("goes over 64 levels, the working directory the first of them", () => {
    using tree = new Tree();
    tree.file("top/.git");
    const below = (levels: number) => `top${"/d".repeat(levels)}`;
    expect(tree.first(below(63))).toBe("vcs top .git");
    expect(tree.first(below(64))).toBe(`cwd ${below(64)} `);
  });

  test("counts the levels for the marker of an outer directory as well", () => {
    using tree = new Tree();
    tree.file("top/.agent-shell-root");
    tree.file("top/d/.git");
    const below = (levels: number) => `top${"/d".repeat(levels)}`;
    expect(tree.first(below(63))).toBe("root-marker top .agent-shell-root");
    expect(tree.first(below(64))).toBe("vcs top/d .git");
  });

  test("finds fixed names in a directory that cannot be listed", () => {
    using tree = new Tree();
    tree.file("a/.git");
    tree.file("b/go.mod");
    tree.file("c/README.md");
    tree.directory("c/src");
    const cwds = ["a/x", "b/x", "c/x"].map((cwd) => [cwd, tree.directory(cwd)][0]!);
    for (const name of ["a", "b", "c"]) chmodSync(tree.at(name), 0o111);
    const found = cwds.map((cwd) => tree.first(cwd));
    for (const name of ["a", "b", "c"]) chmodSync(tree.at(name), 0o755);
    expect(found).toEqual(["vcs a .git", "project b go.mod", "readme-src c README.md"]);
  });

  test("finds fixed names in a very large directory, without listing it", () => {
    using tree = new Tree();
    // A directory's size is that of its entries on most file systems: 2,000 names of 250 bytes.
    for (let i = 0; i < 2000; i += 1) tree.file(`a/${String(i).padStart(250, "n")}`);
    tree.file("a/.hg");
    expect(tree.first("a/x")).toBe("vcs a .hg");
  }, 30_000);

  test("does not stumble over a working directory that is gone", () => {
    using tree = new Tree();
    tree.file("a/.git");
    const [choice] = tree.choices(Buffer.from(tree.at("a/gone/further")));
    expect([choice?.reason, choice?.place.toString()]).toEqual(["vcs", tree.at("a")]);
  });

  test("goes up from a directory whose path is no UTF-8, and keeps its bytes", () => {
    using tree = new Tree();
    const odd = Buffer.concat([tree.bytesAt("a"), Buffer.from([0x2f, 0xff, 0xfe])]);
    mkdirSync(Buffer.concat([odd, Buffer.from("/x")]), { recursive: true });
    const root = () => tree.choices(Buffer.concat([odd, Buffer.from("/x")]))[0]!.root;
    expect(root()).toEqual(Buffer.concat([odd, Buffer.from("/x/.agent-shell")]));
    writeFileSync(Buffer.concat([odd, Buffer.from("/.git")]), "");
    expect(root()).toEqual(Buffer.concat([odd, Buffer.from("/.agent-shell")]));
    tree.file("a/.agent-shell-root");
    expect(root().toString()).toBe(tree.at("a/.agent-shell"));
  });
});

describe("a root that is given", () => {
  test("is the root itself, before everything that is marked", () => {
    using tree = new Tree();
    tree.file("a/.agent-shell-root");
    const [choice] = tree.choices("a", { given: Buffer.from("/somewhere/runs") });
    expect([choice?.reason, choice?.root.toString(), choice?.marker]).toEqual(["given", "/somewhere/runs", null]);
  });

  test.each([
    ["runs", "/runs"],
    ["./runs//", "/./runs"],
    ["../runs/", "/../runs"],
  ])("may be relative to the working directory: %p", (given, end) => {
    using tree = new Tree();
    const [choice] = tree.choices("a", { given: Buffer.from(given) });
    expect(choice?.root.toString()).toBe(tree.at("a") + end);
  });

  test("loses the slashes at its end", () => {
    using tree = new Tree();
    expect(tree.choices("a", { given: Buffer.from("/r///") })[0]?.root.toString()).toBe("/r");
  });

  test("may be the home directory: it was asked for", () => {
    using tree = new Tree();
    expect(tree.choices("a", { given: Buffer.from(tree.home) })[0]?.root.toString()).toBe(tree.home);
  });

  test("has the same fallback places, by its own path", () => {
    using tree = new Tree();
    const choices = tree.choices("a", { given: Buffer.from("/r/") });
    expect(choices.map(({ reason }) => reason)).toEqual(["given", "state-home", "temporary"]);
    expect(choices[1]?.root.toString().endsWith(`/${hashOf("/r")}`)).toBe(true);
  });
});

describe("fallback places", () => {
  test("are the user's state and then temporary files, by the hash of the place", () => {
    using tree = new Tree();
    tree.file("a/.git");
    const hash = hashOf(tree.at("a"));
    expect(tree.choices("a/x").map(({ reason, root }) => [reason, root.toString()])).toEqual([
      ["vcs", tree.at("a/.agent-shell")],
      ["state-home", `${tree.home}/.local/state/agent-shell/${hash}`],
      ["temporary", `/tmp/agent-shell-1000/${hash}`],
    ]);
  });

  test("follow XDG_STATE_HOME and TMPDIR", () => {
    using tree = new Tree();
    const roots = tree
      .choices("a", { stateHome: Buffer.from("/state"), temporary: Buffer.from("/var/tmp") })
      .map(({ root }) => root.toString());
    const hash = hashOf(tree.at("a"));
    expect(roots.slice(1)).toEqual([`/state/agent-shell/${hash}`, `/var/tmp/agent-shell-1000/${hash}`]);
  });

  test("leave out the state of a user without a home", () => {
    using tree = new Tree();
    expect(tree.choices("a", { home: null }).map(({ reason }) => reason)).toEqual(["cwd", "temporary"]);
  });

  test("are different for different places", () => {
    using tree = new Tree();
    const roots = ["a", "b"].map((cwd) => tree.choices(cwd)[1]?.root.toString());
    expect(roots[0]).not.toBe(roots[1]);
  });
});
