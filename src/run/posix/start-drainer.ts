/** Starts our own image as the drainer of streams that outlive their run, free of everything that is the caller's. */
import { cString, cStringArray, integers, type Libc, memory, O_RDWR } from "../../base/libc.ts";
import { DRAINER_FIRST_FD, DRAINER_NAME, type LateCapture } from "../late-capture.ts";
import type { OutputStream } from "../launcher.ts";

const SPAWN_SETSIGMASK = 0x08;
const SPAWN_SETSID = 0x80;

/**
 * The drainer has its own session, no terminal, no environment, and no descriptor but /dev/null and the read ends of
 * `streams`. False when it could not be started.
 */
export function startDrainer(libc: Libc, streams: ReadonlyMap<OutputStream, number>, late: LateCapture): boolean {
  const actions = memory(512);
  libc.posix_spawn_file_actions_init(actions);
  for (const fd of [0, 1, 2]) {
    libc.posix_spawn_file_actions_addopen(actions, fd, cString("/dev/null"), O_RDWR, 0);
  }
  // First to places above all, so that no read end is overwritten before it is moved.
  const above = Math.max(DRAINER_FIRST_FD + streams.size, ...streams.values()) + 1;
  let index = 0;
  for (const fd of streams.values()) libc.posix_spawn_file_actions_adddup2(actions, fd, above + index++);
  for (let i = 0; i < index; i += 1) {
    libc.posix_spawn_file_actions_adddup2(actions, above + i, DRAINER_FIRST_FD + i);
    libc.posix_spawn_file_actions_addclose(actions, above + i);
  }
  libc.posix_spawn_file_actions_addchdir_np(actions, cString("/"));
  const attributes = memory(512);
  libc.posix_spawnattr_init(attributes);
  libc.posix_spawnattr_setflags(attributes, SPAWN_SETSID | SPAWN_SETSIGMASK);
  libc.posix_spawnattr_setsigmask(attributes, memory(128));
  const words = cStringArray(
    [
      DRAINER_NAME,
      late.budgetBytes === null ? "none" : String(late.budgetBytes),
      String(late.startNs),
      [...streams.keys()].join(","),
    ]
      .map((word): Uint8Array => Buffer.from(word))
      .concat(late.directory),
  );
  const environment = cStringArray([]);
  const image = cString("/proc/self/exe");
  return libc.posix_spawnp(integers(1), image, actions, attributes, words.pointers, environment.pointers) === 0;
}
