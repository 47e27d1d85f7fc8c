/** `ashctl schema`: what it publishes is valid JSON Schema, and every document that is really written obeys it. */
import { expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { ValidateFunction } from "ajv/dist/2020.js";
import { publishedSchemas } from "../../src/evidence/json-schema.ts";
import { compileSchema, inEnvironment, parseDocument } from "../helpers/test-environment.ts";

test(
  "every real document is valid against the schemas that `schema all` writes",
  inEnvironment(async (environment) => {
    expect(await environment.ashctl(["schema", "all", "--output", "schemas"])).toMatchObject({
      code: 0,
      stdout: "",
      stderr: "",
    });
    const directory = join(environment.project, "schemas");
    const names = readdirSync(directory).map((file) => file.replace(/\.json$/, ""));
    expect(names.sort()).toEqual(Object.keys(publishedSchemas()).sort());
    const validators = new Map<string, ValidateFunction>();
    for (const name of names) {
      const schema = JSON.parse(readFileSync(join(directory, `${name}.json`), "utf8"));
      expect(schema).toMatchObject({
        $schema: "https://json-schema.org/draft/2020-12/schema",
        $id: `agent-shell/${name}@1`,
      });
      validators.set(name, compileSchema(schema));
    }
    const check = (name: string, text: string) => {
      const validate = validators.get(name)!;
      expect([name, validate(JSON.parse(text)), validate.errors]).toEqual([name, true, null]);
    };
    const json = async (args: string[], stdin = "") => await environment.ashctl(["--json", ...args], { stdin });

    check(
      "completion",
      (await json(["run", "--label", "a=b", "--", "sh", "-c", "echo out; echo err >&2; exit 3"])).stdout,
    );
    check("completion", (await json(["run", "--", "nosuch"])).stdout);
    check("completion", (await json(["run", "--", "sh", "-c", "kill -34 $$"])).stdout);
    check("completion", (await json(["run", "--", "seq", "1000"])).stdout);
    check("error", (await json(["run", "--cwdd"])).stderr);
    check("error", (await json(["show", "deadbeef"])).stderr);
    check("error", (await json(["run", "--spec", "-"], "{}")).stderr);
    check("root", (await json(["root"])).stdout);
    check("run-list", (await json(["list"])).stdout);
    for (const source of ["stdout", "stderr", "merged"])
      check("query-result", (await json(["show", "latest", source])).stdout);
    const spec = '{"argv":["true",{"base64":"/w=="}],"env":{"A":"b"},"labels":{"a":"b"}}';
    check("run-spec", spec);
    check("completion", (await json(["run", "--spec", "-"], spec)).stdout);
    for (const run of environment.runDirectories()) {
      check("receipt", readFileSync(join(run, "receipt.json"), "utf8"));
      for (const line of readFileSync(join(run, "events.jsonl"), "utf8").trim().split("\n")) check("event", line);
    }
    expect(validators.get("run-spec")!({ argv: ["true"], unknown: 1 })).toBe(false);
  }),
);

test(
  "one schema goes to stdout, or whole into a file that it replaces",
  inEnvironment(async (environment) => {
    const printed = await environment.ashctl(["schema", "receipt"]);
    expect(JSON.parse(printed.stdout)).toEqual(JSON.parse(JSON.stringify(publishedSchemas().receipt)));
    const file = environment.write("deep/receipt.json", "old");
    expect(await environment.ashctl(["schema", "receipt", "--output", "deep/receipt.json"])).toMatchObject({
      code: 0,
      stdout: "",
    });
    expect(JSON.parse(readFileSync(file, "utf8"))).toEqual(JSON.parse(printed.stdout));
    expect(readdirSync(join(environment.project, "deep"))).toEqual(["receipt.json"]);
  }),
);

test(
  "an unknown name, a missing one, and `all` without a directory are refused with the way out",
  inEnvironment(async (environment) => {
    const near = await environment.ashctl(["--json", "schema", "recept"]);
    expect(near).toMatchObject({ code: 2, stdout: "" });
    expect(parseDocument("error", near.stderr)).toMatchObject({
      code: "unknown_schema",
      hint: "did you mean 'receipt'?",
    });
    expect((await environment.ashctl(["schema", "constructor"])).code).toBe(2);
    expect((await environment.ashctl(["schema"])).stderr).toContain("run-spec receipt event");
    expect((await environment.ashctl(["schema", "all"])).stderr).toContain("--output");
  }),
);

test(
  "an output inside the store is refused, by its name and through a link, and the store stays as it is",
  inEnvironment(async (environment) => {
    await environment.ash(["true"]);
    const { directory } = environment.lastRun();
    await environment.run("ln -s .agent-shell link");
    for (const path of [
      ".agent-shell/x.json",
      "link/x.json",
      "./link/../.agent-shell/artifacts/x.json",
      join(directory, "x.json"),
    ]) {
      const outcome = await environment.ashctl(["schema", "receipt", "--output", path]);
      expect([path, outcome.code]).toEqual([path, 2]);
      expect((await environment.ashctl(["schema", "all", "--output", path])).code).toBe(2);
    }
  }),
);

test(
  "an output that cannot be written is an error with 1, and leaves nothing behind",
  inEnvironment(async (environment) => {
    mkdirSync(join(environment.project, "directory"));
    const outcome = await environment.ashctl(["--json", "schema", "receipt", "--output", "directory"]);
    expect(outcome.code).toBe(1);
    expect(parseDocument("error", outcome.stderr)).toMatchObject({ code: "write_failed" });
    expect(readdirSync(environment.project).sort()).toEqual([".git", "directory"]);
    const full = await environment.run("ashctl schema receipt >/dev/full");
    expect(full.code).toBe(1);
    expect(full.stderr).toMatch(/^ashctl: [^\n]*ENOSPC[^\n]*\n$/);
    expect(existsSync(join(environment.project, ".agent-shell"))).toBe(false);
  }),
);

test(
  "an output below a file is such an error as well: --output file/x",
  inEnvironment(async (environment) => {
    environment.write("file", "");
    const outcome = await environment.ashctl(["schema", "receipt", "--output", "file/x"]);
    expect(outcome.code).toBe(1);
    expect(outcome.stderr).toMatch(/^ashctl: [^\n]*'file\/x'[^\n]*\n$/);
  }),
);
