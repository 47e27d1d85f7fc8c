/** Sizes and durations as people read them. Pure. */

/** `0B`, `812B`, `186.4KiB`, `18.2GiB`. */
export function formatBytes(bytes: number): string {
  if (bytes < 1024) return `${bytes}B`;
  let value = bytes;
  let unit = "B";
  for (const next of ["KiB", "MiB", "GiB", "TiB"]) {
    // What would be shown as 1024.0 is one of the next unit.
    if (value < 1023.95 && unit !== "B") break;
    value /= 1024;
    unit = next;
  }
  return `${value.toFixed(1)}${unit}`;
}

/** `284ms` below a second, `1.842s` below a minute, then `2m04s`, `1h02m`, `3d04h`. */
export function formatDuration(ms: number): string {
  if (ms < 999.5) return `${ms < 10 ? Number(ms.toFixed(1)) : Math.round(ms)}ms`;
  if (ms < 59_999.5) return `${(ms / 1000).toFixed(3)}s`;
  const seconds = Math.round(ms / 1000);
  const two = (n: number) => String(n).padStart(2, "0");
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m${two(seconds % 60)}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)}h${two(minutes % 60)}m`;
  const hours = Math.floor(minutes / 60);
  return `${Math.floor(hours / 24)}d${two(hours % 24)}h`;
}

/** An age in its largest whole unit: `38s`, `12m`, `5h`, `3d`. */
export function formatAge(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86_400)}d`;
}

/** A non-negative whole number in decimal up to 2^53 - 1, or null when the text is anything else. */
export function parseCount(text: string): number | null {
  const count = /^[0-9]{1,16}$/.test(text) ? Number(text) : Number.NaN;
  return Number.isSafeInteger(count) ? count : null;
}
