import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import { publishedSchemas } from "../../src/evidence/json-schema.ts";

const schemas = publishedSchemas();
const ajv = new Ajv2020({ strict: true, allowUnionTypes: true, validateFormats: false, allErrors: true });

/** What the schema has against the document, as text. */
function errorsOf(name: string, document: unknown): string[] {
  const validate = ajv.getSchema(`agent-shell/${name}@1`) ?? ajv.compile(schemas[name]!);
  validate(document);
  return (validate.errors ?? []).map(({ instancePath, message, params }) =>
    [instancePath, message, JSON.stringify(params)].join(" "),
  );
}

/** The JSON examples of docs/evidence.md, in order: a document, or events line by line. */
function examples(): unknown[][] {
  const text = readFileSync(join(import.meta.dir, "../../docs/evidence.md"), "utf8");
  return [...text.matchAll(/^```json\n([\s\S]*?)^```$/gm)].map(([, body = ""]) =>
    body.startsWith("{\n")
      ? [JSON.parse(body)]
      : body
          .trim()
          .split("\n")
          .map((line): unknown => JSON.parse(line)),
  );
}

const isEvent = (document: unknown): document is { type: string } =>
  typeof document === "object" && document !== null && "elapsed_ns" in document;

/** A whole document, and not a part of one. */
const isDocument = (value: unknown): value is { schema: string } =>
  typeof value === "object" && value !== null && "schema" in value && typeof value.schema === "string";

describe("published schemas", () => {
  test.each(Object.keys(schemas))("%s is valid draft 2020-12, and names itself", (name) => {
    const schema = schemas[name] as Record<string, unknown>;
    expect(schema.$schema).toBe("https://json-schema.org/draft/2020-12/schema");
    expect([schema.$id, schema.title]).toEqual([`agent-shell/${name}@1`, name]);
    expect(new Ajv2020({ validateFormats: false }).validateSchema(schema)).toBe(true);
    expect(() =>
      new Ajv2020({ strict: true, allowUnionTypes: true, validateFormats: false }).compile(schema),
    ).not.toThrow();
  });

  test.each(Object.keys(schemas))("%s refuses what is no object of its kind", (name) => {
    for (const document of [null, [], "text", 1, {}, { schema: "agent-shell/other@1" }]) {
      expect([document, errorsOf(name, document).length > 0]).toEqual([document, true]);
    }
  });

  test("allow no other field", () => {
    const event = { type: "run_finalized", elapsed_ns: 1, state: "completed" };
    expect(errorsOf("event", event)).toEqual([]);
    expect(errorsOf("event", { ...event, more: 1 })).not.toEqual([]);
    expect(errorsOf("run-spec", { argv: ["true"] })).toEqual([]);
    expect(errorsOf("run-spec", { argv: ["true"], more: 1 })).not.toEqual([]);
  });
});

describe("the examples in docs/evidence.md", () => {
  test("are there: events and a receipt", () => {
    const all = examples().flat();
    expect(all.filter(isEvent).length).toBeGreaterThan(10);
    expect(all.some((document) => (document as { schema?: string }).schema === "agent-shell/receipt@1")).toBe(true);
  });

  test("show one event of each type, as the schema has it", () => {
    const events = examples().flat().filter(isEvent);
    expect(events.map((event) => [event.type, errorsOf("event", event)])).toEqual(events.map(({ type }) => [type, []]));
    const variants = (schemas.event as { oneOf: { properties: { type: { const: string } } }[] }).oneOf;
    expect([...new Set(events.map(({ type }) => type))].sort()).toEqual(
      variants.map(({ properties }) => properties.type.const).sort(),
    );
  });

  test("show documents as their schemas have them", () => {
    const documents = examples().flat().filter(isDocument);
    for (const document of documents) {
      const name = document.schema.replace(/^agent-shell\//, "").replace(/@1$/, "");
      expect([name, errorsOf(name, document)]).toEqual([name, []]);
    }
  });
});
