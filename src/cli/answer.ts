/** How a verb answers: one document or one text on stdout. */

import { isClosedAtStart } from "../base/descriptors.ts";
import { AshError } from "../base/errors.ts";
import { writeAll } from "./output.ts";

/** Prints the answer. A reader that has gone ends it quietly; a sink that is full is an error. */
export function answer(json: boolean, document: () => unknown, text: () => string): void {
  if (isClosedAtStart(1)) throw new AshError("write_failed", "the answer could not be written: stdout is closed");
  const result = writeAll(1, json ? `${JSON.stringify(document())}\n` : text());
  if (result.kind === "failed") throw new AshError("write_failed", `the answer could not be written: ${result.reason}`);
}
