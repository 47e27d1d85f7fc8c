/** What the child's inherited stdin is. */
import { toByteText } from "../base/bytes.ts";
import { descriptorState, isTerminal, readSymlink, readWhole } from "../base/files.ts";
import type { Receipt } from "../evidence/receipt.ts";

type Stdin = Receipt["stdin"];

export function describeStdin(closed: boolean): Stdin {
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
  const path = readSymlink(Buffer.from("/proc/self/fd/0"));
  return path === null ? null : toByteText(path);
}

function fileOffset(): number | null {
  const text = readWhole(Buffer.from("/proc/self/fdinfo/0"))?.toString("latin1");
  return text?.startsWith("pos:") ? Number.parseInt(text.slice(4), 10) : null;
}
