/** `ashctl list`: the runs of this root. */
import { AshError } from "../../base/errors.ts";
import { parseCount } from "../../base/units.ts";
import { SCHEMA } from "../../evidence/names.ts";
import type { RunList } from "../../evidence/run-list.ts";
import { renderRunList } from "../../render/run-list-text.ts";
import { listRuns } from "../../store/run-list.ts";
import { answer } from "../answer.ts";
import type { Command } from "../command.ts";
import { chosenRoot } from "../open-root.ts";

const DEFAULT_LIMIT = 20;

export const command: Command = {
  definition: {
    name: "list",
    summary: "list the runs of this root, newest first",
    positionals: [],
    options: [{ name: "limit", value: "N", help: `Show at most N runs (default: ${DEFAULT_LIMIT})` }],
    examples: [
      ["ashctl list", "suffix, start, exit, duration, size, command"],
      ["ashctl list --limit 100 --json", "as agent-shell/run-list@1"],
    ],
    exits: [
      ["0", "listed, also when there are none"],
      ["2", "usage"],
    ],
  },
  async run(context, { values }) {
    const text = values.get("limit")?.[0];
    const limit = text === undefined ? DEFAULT_LIMIT : parseCount(text);
    if (limit === null || limit === 0)
      throw new AshError("usage", `--limit '${text}' is not a number of runs`, { hint: "--limit 50" });
    const { items, total, damaged } = listRuns(chosenRoot(context.root).root, limit);
    const document: RunList = { schema: SCHEMA.runList, items, cursor: null };
    answer(
      context.json,
      () => document,
      () => renderRunList(items, total, damaged),
    );
    return 0;
  },
};
