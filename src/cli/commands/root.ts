/** `ashctl root`: which store is used here, and why. */
import { displayBytes, toByteText } from "../../base/bytes.ts";
import { makeVisible } from "../../base/terminal-text.ts";
import { SCHEMA } from "../../evidence/names.ts";
import type { RootDocument } from "../../evidence/root.ts";
import type { RootChoice } from "../../store/root.ts";
import { answer } from "../answer.ts";
import type { Command } from "../command.ts";
import { chosenRoot } from "../open-root.ts";

const WHY: Record<RootChoice["reason"], (marker: string | null) => string> = {
  given: () => "named by --root or ASH_ROOT",
  "root-marker": (marker) => `nearest directory with ${marker}`,
  vcs: (marker) => `nearest directory with ${marker}`,
  project: (marker) => `nearest directory with the project marker ${marker}`,
  "readme-src": (marker) => `nearest directory with ${marker} and src`,
  cwd: () => "the working directory: nothing above it marks a project",
  "state-home": () => "the user's state directory: the place itself cannot hold a store",
  temporary: () => "the temporary directory: neither the place nor the user's state directory can hold a store",
};

export const command: Command = {
  definition: {
    name: "root",
    summary: "print the store that is used here, and why",
    positionals: [],
    options: [],
    examples: [
      ["ashctl root", "the path, then the reason"],
      ["ASH_ROOT=/var/ash ashctl root", "a place of your choice"],
    ],
    exits: [
      ["0", "printed; the store need not exist yet"],
      ["2", "usage"],
    ],
  },
  async run(context) {
    const { root, place, reason, marker } = chosenRoot(context.root);
    const document: RootDocument = {
      schema: SCHEMA.root,
      root: toByteText(root),
      place: toByteText(place),
      reason,
      marker,
    };
    answer(
      context.json,
      () => document,
      () => `${makeVisible(displayBytes(root))}\nreason: ${WHY[reason](marker)}\n`,
    );
    return 0;
  },
};
