/** Observations of the machine, before and after a run. Each value that cannot be read is null. */
import { listDirectory, readWhole } from "../base/files.ts";
import type { HostState } from "../evidence/receipt.ts";

export function readHostState(): HostState {
  const memory = readMemory();
  return { load: readLoad(), ...memory, processes: countProcesses() };
}

function readText(path: string): string | null {
  return readWhole(Buffer.from(path))?.toString("latin1") ?? null;
}

function readLoad(): HostState["load"] {
  const words = readText("/proc/loadavg")?.split(" ");
  if (words === undefined) return null;
  const [one, five, fifteen] = words.map(Number);
  return [one!, five!, fifteen!];
}

function readMemory(): Pick<HostState, "memory_total_bytes" | "memory_available_bytes" | "memory_used_percent"> {
  const text = readText("/proc/meminfo");
  const field = (name: string) => {
    const at = text === null ? -1 : text.indexOf(name);
    return text === null || at < 0 ? null : Number.parseInt(text.slice(at + name.length), 10) * 1024;
  };
  const total = field("MemTotal:");
  const available = field("MemAvailable:");
  return {
    memory_total_bytes: total,
    memory_available_bytes: available,
    memory_used_percent:
      total === null || available === null ? null : Math.round(((total - available) / total) * 1000) / 10,
  };
}

function countProcesses(): number | null {
  const names = listDirectory(Buffer.from("/proc"));
  if (names === null) return null;
  let count = 0;
  for (const name of names) if (name.charCodeAt(0) >= 0x31 && name.charCodeAt(0) <= 0x39) count += 1;
  return count;
}
