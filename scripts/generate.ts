/** Writes the files that are made from the source; with --check writes nothing and exits 1 where one is out of date. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { readHotPath } from "./hot-path.ts";

const ROOT = join(import.meta.dir, "..");
const SCHEMA_DIRECTORY = "docs/schema";
const SCHEMA_SOURCE = "src/evidence/json-schema.ts";

/** Returns every generated file's text by its path, relative to the root. */
async function generate(): Promise<Map<string, string>> {
  const files = new Map<string, string>();
  const { inputs } = await readHotPath();
  if (inputs.length > 0) files.set("test/guards/hot-path.txt", `${inputs.join("\n")}\n`);
  if (existsSync(join(ROOT, SCHEMA_SOURCE))) {
    // By a computed name: the file is looked for at run time.
    const source = (await import(join(ROOT, SCHEMA_SOURCE))) as { publishedSchemas(): Record<string, object> };
    for (const [name, schema] of Object.entries(source.publishedSchemas())) {
      files.set(`${SCHEMA_DIRECTORY}/${name}.json`, `${JSON.stringify(schema, null, 2)}\n`);
    }
  }
  return files;
}

/** Returns the schema files on disk that no schema is published for. */
function findLeftovers(files: Map<string, string>): string[] {
  const directory = join(ROOT, SCHEMA_DIRECTORY);
  if (!existsSync(directory)) return [];
  return readdirSync(directory)
    .map((name) => `${SCHEMA_DIRECTORY}/${name}`)
    .filter((path) => path.endsWith(".json") && !files.has(path));
}

/** Returns the generated files that differ from those on disk, are missing, or should be gone. */
export async function findDrift(): Promise<string[]> {
  const files = await generate();
  const changed = [...files].filter(([path, text]) => {
    const onDisk = join(ROOT, path);
    return !existsSync(onDisk) || readFileSync(onDisk, "utf8") !== text;
  });
  return [...changed.map(([path]) => path), ...findLeftovers(files)];
}

async function write(): Promise<void> {
  const files = await generate();
  for (const [path, text] of files) {
    mkdirSync(dirname(join(ROOT, path)), { recursive: true });
    writeFileSync(join(ROOT, path), text);
  }
  for (const path of findLeftovers(files)) rmSync(join(ROOT, path));
}

if (import.meta.main) {
  if (process.argv.includes("--check")) {
    const drift = await findDrift();
    for (const path of drift) console.error(`out of date: ${path} (bun scripts/generate.ts)`);
    process.exitCode = drift.length > 0 ? 1 : 0;
  } else {
    await write();
  }
}
