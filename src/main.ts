/** One image, two programs: the name it is called by decides. */
import { main as ash } from "./ash.ts";
import { callerArgv } from "./cli/caller.ts";
import { DRAINER_NAME } from "./run/late-capture.ts";

const [name, ...words] = callerArgv();
const program = name!.subarray(name!.lastIndexOf(0x2f) + 1).toString("utf8");
const exitCode =
  program === DRAINER_NAME
    ? await (await import("./drain.ts")).main(words)
    : program.startsWith("ashctl")
      ? await (await import("./ashctl.ts")).main(words)
      : await ash(words);
process.exit(exitCode);
