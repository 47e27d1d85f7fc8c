/** What `action` throws; fails when it throws nothing. */
export function thrownBy(action: () => unknown): Error & { code?: unknown; hint?: unknown } {
  let value: unknown;
  try {
    value = action();
  } catch (error) {
    return error as Error;
  }
  throw new Error(`nothing was thrown, but ${String(value)} returned`);
}
