/** What the child's stdin is. */
import { toByteText } from "../base/bytes.ts";
import { isTerminal } from "../base/descriptors.ts";
import { descriptorState, readProcText, readSymlink } from "../base/files.ts";
import type { Receipt } from "../evidence/receipt.ts";
import type { StdinPlan } from "./launcher.ts";

type Stdin = Receipt["stdin"];

/** `closed`: the caller had descriptor 0 closed. */
export function describeStdin(plan: StdinPlan, closed: boolean): Stdin {
  if (plan.kind === "capture") return { kind: "captured", path: null, offset: null };
  if (plan.kind === "null") return { kind: "null", path: null, offset: null };
  if (plan.kind === "file") return { kind: "file", path: toByteText(plan.path), offset: 0 };
  const state = closed ? null : descriptorState(0);
  const of = (kind: Stdin["kind"]): Stdin => ({ kind, path: null, offset: null });
  if (state === null) return of("closed");
  switch (state.kind) {
    case "fifo":
      return of("pipe");
    case "socket":
      return of("socket");
    case "file":
      return { kind: "file", path: filePath(), offset: fileOffset() };
    case "character":
      // Device 1:3 is /dev/null.
      return of(state.major === 1 && state.minor === 3 ? "null" : isTerminal(0) ? "tty" : "other");
    default:
      return of("other");
  }
}

function filePath(): Stdin["path"] {
  const path = readSymlink("/proc/self/fd/0");
  return path === null ? null : toByteText(path);
}

function fileOffset(): number | null {
  const text = readProcText("/proc/self/fdinfo/0");
  return text?.startsWith("pos:") ? Number.parseInt(text.slice(4), 10) : null;
}
