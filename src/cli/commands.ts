/** The verbs of `ashctl`, each loaded when it is used. */
import type { Command } from "./command.ts";

interface Entry {
  summary: string;
  load: () => Promise<{ command: Command }>;
}

export const COMMANDS: Readonly<Record<string, Entry>> = {
  run: { summary: "run a command with options, as ash does without", load: () => import("./commands/run.ts") },
  show: { summary: "show a stored run's output, bounded", load: () => import("./commands/show.ts") },
  list: { summary: "list the runs of this root, newest first", load: () => import("./commands/list.ts") },
  root: { summary: "print the store that is used here, and why", load: () => import("./commands/root.ts") },
  schema: { summary: "print the JSON Schema of a document", load: () => import("./commands/schema.ts") },
};
