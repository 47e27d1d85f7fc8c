/** What this process has open when our code begins. */
import { fileState, listDirectory, readSymlink } from "../../base/files.ts";

export interface OpenDescriptors {
  /** The runtime's event descriptor (epoll); null when it was not found. */
  wake: number | null;
  /** Descriptors from 3 up that the caller handed to us. */
  inherited: number[];
}

/** What is open in this process before we open anything: the runtime's own two descriptors, and the caller's. */
export function openDescriptors(): OpenDescriptors {
  // Since Linux 6.2 the size of the directory is the number of open descriptors: 0, 1, 2, epoll, eventfd.
  if (fileState("/proc/self/fd")?.size === 5 && descriptorTarget(3) === "anon_inode:[eventpoll]")
    return { wake: 3, inherited: [] };
  const found: OpenDescriptors = { wake: null, inherited: [] };
  for (const name of listDirectory("/proc/self/fd") ?? []) {
    const fd = Number(name);
    if (fd < 3) continue;
    const target = descriptorTarget(fd);
    if (target === "anon_inode:[eventpoll]") found.wake ??= fd;
    else if (target !== null && target !== "anon_inode:[eventfd]") found.inherited.push(fd);
  }
  return found;
}

/** What a descriptor of ours refers to; null when it is not open (as the one that listed the directory). */
function descriptorTarget(fd: number): string | null {
  return readSymlink(`/proc/self/fd/${fd}`)?.toString("latin1") ?? null;
}
