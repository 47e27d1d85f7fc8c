/** Who else reads our stdin. Capturing it is only right when nobody does: another reader may want what the child leaves. */
import { listDirectory, readProcText, readSymlink } from "../../base/files.ts";

/**
 * Whether stdin is an anonymous pipe that no process outside of this one can read. A shell closes its own ends a moment
 * after it has started us: when somebody is found, a second look follows after 1 ms. Where /proc hides a process of
 * another user, it is taken not to share our pipe.
 */
export function isOnlyReaderOfStdin(): boolean {
  const pipe = readSymlink("/proc/self/fd/0")?.toString("latin1");
  if (pipe?.startsWith("pipe:[") !== true) return false;
  if (!hasOtherReader(pipe)) return true;
  Bun.sleepSync(1);
  return !hasOtherReader(pipe);
}

function hasOtherReader(pipe: string): boolean {
  const own = String(process.pid);
  for (const pid of listDirectory("/proc") ?? []) {
    const first = pid.charCodeAt(0);
    if (first < 0x31 || first > 0x39 || pid === own) continue;
    for (const fd of listDirectory(`/proc/${pid}/fd`) ?? []) {
      if (readSymlink(`/proc/${pid}/fd/${fd}`)?.toString("latin1") !== pipe) continue;
      const flags = readProcText(`/proc/${pid}/fdinfo/${fd}`) ?? "";
      // The last octal digit is the access mode: 0 and 2 may read.
      if (/^flags:\s+[0-7]*[02]$/m.test(flags)) return true;
    }
  }
  return false;
}
