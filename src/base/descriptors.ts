/** What the descriptors are that we were started with. */
import { descriptorState } from "./files.ts";
import { libc } from "./libc.ts";

const F_GETFD = 1;
const FD_CLOEXEC = 1;

/** Tells whether a descriptor is a terminal: majors 4, 5 and 136 to 143 on Linux (admin-guide/devices.txt). */
export function isTerminal(fd: number): boolean {
  const state = descriptorState(fd);
  if (state?.kind !== "character") return false;
  if (process.platform === "darwin") return state.major === 16 || state.major === 4;
  return state.major === 4 || state.major === 5 || (state.major >= 136 && state.major <= 143);
}

/**
 * Whether the caller had descriptor 0, 1 or 2 closed. The runtime opens /dev/null in its place and marks it
 * close-on-exec; a descriptor that came through exec cannot carry that mark. False where it cannot be told.
 */
export function isClosedAtStart(fd: number): boolean {
  if (libc === null) return false;
  const flags = libc.fcntl(fd, F_GETFD, 0);
  return flags < 0 || (flags & FD_CLOEXEC) !== 0;
}
