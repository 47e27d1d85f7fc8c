/** `ashctl show`: the output of a stored run. */
import { AshError } from "../../base/errors.ts";
import { SOURCES, type Source, showRun } from "../../query/show.ts";
import { renderQueryResult } from "../../render/query-text.ts";
import { findRun } from "../../store/find-run.ts";
import { readReceipt } from "../../store/read-run.ts";
import { answer } from "../answer.ts";
import { nearest } from "../arguments.ts";
import type { Command } from "../command.ts";
import { chosenRoot } from "../open-root.ts";

export const command: Command = {
  definition: {
    name: "show",
    summary: "show the beginning of a stored run's output (100 lines, 32 KiB), and where the whole is",
    positionals: ["RUN", "[stdout|stderr|merged]"],
    options: [],
    examples: [
      ["ashctl show latest", "both streams in observed order"],
      ["ashctl show a1b2c3d4 stderr", "one stream"],
      ["ashctl show @2 merged --json", "the run before the last, as agent-shell/query-result@1"],
    ],
    exits: [
      ["0", "shown, also when there was no output"],
      ["2", "usage, or a suffix that several runs have"],
      ["3", "no such run, or its evidence is missing or damaged"],
    ],
  },
  async run(context, { positionals }) {
    const [name, source = "merged"] = positionals;
    if (name === undefined) throw new AshError("usage", "ashctl show needs a run", { hint: "ashctl show latest" });
    if (!isSource(source)) {
      const near = nearest(source, SOURCES);
      throw new AshError("usage", `'${source}' is no source`, {
        hint: near === null ? `one of: ${SOURCES.join(" ")}` : `did you mean '${near}'?`,
      });
    }
    const run = findRun(chosenRoot(context.root).root, name);
    const { result, files } = showRun(run, readReceipt(run), source);
    answer(
      context.json,
      () => result,
      () => renderQueryResult(result, files),
    );
    return 0;
  },
};

function isSource(text: string): text is Source {
  return (SOURCES as readonly string[]).includes(text);
}
