/** Observations of the machine, before and after a run. Each value that cannot be read is null. */
import { countProcesses, readProcText } from "../base/files.ts";
import type { HostState } from "../evidence/receipt.ts";

export function readHostState(): HostState {
  const memory = readMemory();
  return { load: readLoad(), ...memory, processes: countProcesses() };
}

function readLoad(): HostState["load"] {
  const words = readProcText("/proc/loadavg")?.split(" ");
  if (words === undefined) return null;
  const [one, five, fifteen] = words.map(Number);
  return [one!, five!, fifteen!];
}

function readMemory(): Pick<HostState, "memory_total_bytes" | "memory_available_bytes" | "memory_used_percent"> {
  const text = readProcText("/proc/meminfo");
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
