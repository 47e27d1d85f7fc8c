/** `ashctl schema`: the published contracts. */
import { closeSync, mkdirSync, openSync, renameSync, rmSync, writeSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { AshError, errorReason } from "../../base/errors.ts";
import { publishedSchemas } from "../../evidence/json-schema.ts";
import { answer } from "../answer.ts";
import { nearest } from "../arguments.ts";
import type { Command } from "../command.ts";
import { refuseInsideRoot } from "../refuse-inside-root.ts";

const text = (schema: object) => `${JSON.stringify(schema, null, 2)}\n`;

export const command: Command = {
  definition: {
    name: "schema",
    summary: "print the JSON Schema (draft 2020-12) of a document",
    positionals: ["NAME|all"],
    options: [{ name: "output", value: "PATH", help: "Write to a file; for 'all', into a directory (required there)" }],
    examples: [
      ["ashctl schema receipt", "on stdout"],
      ["ashctl schema run-spec --output run-spec.json", "into a file"],
      ["ashctl schema all --output schemas", "every schema, schemas/NAME.json"],
    ],
    exits: [
      ["0", "printed or written"],
      ["1", "the file could not be written"],
      ["2", "usage, no such schema, or an output inside the store"],
    ],
  },
  async run(context, { positionals, values }) {
    const schemas = publishedSchemas();
    const names = Object.keys(schemas);
    const [name] = positionals;
    const output = values.get("output")?.[0];
    if (output !== undefined) refuseInsideRoot(output, context.root);
    if (name === undefined)
      throw new AshError("usage", "ashctl schema needs a name", { hint: `one of: ${names.join(" ")} all` });
    if (name === "all") {
      if (output === undefined) {
        throw new AshError("usage", "ashctl schema all needs a directory", { hint: "ashctl schema all --output DIR" });
      }
      for (const [each, schema] of Object.entries(schemas)) replaceFile(join(output, `${each}.json`), text(schema));
      answer(
        context.json,
        () => ({ written: names.map((each) => join(output, `${each}.json`)) }),
        () => "",
      );
      return 0;
    }
    const schema = Object.hasOwn(schemas, name) ? schemas[name] : undefined;
    if (schema === undefined) {
      const near = nearest(name, names);
      throw new AshError("unknown_schema", `there is no schema '${name}'`, {
        hint: near === null ? `one of: ${names.join(" ")}` : `did you mean '${near}'?`,
      });
    }
    if (output === undefined)
      answer(
        false,
        () => schema,
        () => text(schema),
      );
    else replaceFile(output, text(schema));
    return 0;
  },
};

/** Replaces a file only when the new content is whole. */
function replaceFile(path: string, content: string): void {
  const target = resolve(path);
  const temporary = `${target}.${process.pid}.tmp`;
  try {
    mkdirSync(dirname(target), { recursive: true });
    const fd = openSync(temporary, "wx", 0o644);
    writeSync(fd, content);
    closeSync(fd);
    renameSync(temporary, target);
  } catch (error) {
    try {
      rmSync(temporary, { force: true });
    } catch {
      // There was no directory to make it in.
    }
    throw new AshError("write_failed", `'${path}' could not be written: ${errorReason(error)}`);
  }
}
