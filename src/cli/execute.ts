/** One run as `ash` and `ashctl run` do it: the same executor, the same answer. */
import { AshError } from "../base/errors.ts";
import { openPosixLauncher } from "../run/posix/posix-launcher.ts";
import type { RunRequest } from "../run/request.ts";
import { type RunContext, type RunResult, runCommand } from "../run/run.ts";
import { rootChoices } from "../store/root.ts";
import { VERSION } from "../version.ts";
import { callerCwd, rootEnvironment, searchPath } from "./caller.ts";

export async function execute(
  request: RunRequest,
  rootOption: string | null,
  announce?: RunContext["announce"],
): Promise<RunResult> {
  const launcher = openPosixLauncher() ?? (await import("../run/portable/portable-launcher.ts")).openPortableLauncher();
  if (request.reportFd !== null && !launcher.isOpenAtCaller(request.reportFd)) {
    throw new AshError("usage", `--report-fd ${request.reportFd} is not open`, { hint: "for example: 3>report.txt" });
  }
  for (const [asked, option] of [
    [request.pty, "--pty"],
    [request.stdin === "capture", "--stdin capture"],
  ] as const) {
    if (asked && launcher.name !== "posix") {
      throw new AshError("usage", `${option} is not possible on this platform`, { hint: "run without it" });
    }
  }
  const cwd = callerCwd();
  return runCommand(request, {
    launcher,
    firstRootIsFound: rootOption === null,
    roots: rootChoices(rootEnvironment(cwd, rootOption)),
    cwd,
    searchPath: searchPath(),
    version: VERSION,
    ...(announce === undefined ? {} : { announce }),
  });
}
