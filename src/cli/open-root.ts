/** The store that questions are asked of. */
import { pathExists } from "../base/files.ts";
import { join } from "../store/layout.ts";
import { type RootChoice, rootChoices } from "../store/root.ts";
import { callerCwd, rootEnvironment } from "./caller.ts";

/** The first place that holds a store, else the one a run would use. */
export function chosenRoot(rootOption: string | null): RootChoice {
  const choices = rootChoices(rootEnvironment(callerCwd(), rootOption));
  return choices.find((choice) => pathExists(join(choice.root, "artifacts"))) ?? choices[0]!;
}
