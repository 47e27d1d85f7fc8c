/** Which file system a path is on, for a message about it. */
import { displayBytes } from "../base/bytes.ts";
import { readWhole } from "../base/files.ts";

/** The mount point above `path`; the path itself where the system does not tell. */
export function mountPointOf(path: Uint8Array): string {
  const whole = displayBytes(path);
  let best = "";
  for (const line of readWhole("/proc/self/mounts")?.toString("utf8").split("\n") ?? []) {
    // Spaces and other separators in a mount point are written in octal: \040.
    const point = line
      .split(" ")[1]
      ?.replaceAll(/\\([0-7]{3})/g, (_all, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
    if (point === undefined || point.length < best.length) continue;
    if (point === "/" || whole === point || whole.startsWith(`${point}/`)) best = point;
  }
  return best === "" ? whole : best;
}
