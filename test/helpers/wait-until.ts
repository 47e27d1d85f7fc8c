/** Nothing in the tests takes this long. */
const PATIENCE_MS = 20_000;

/** Waits until `condition` gives something else than undefined, null and false. */
export async function waitUntil<T>(
  condition: () => T | Promise<T>,
  what = "the condition",
): Promise<NonNullable<Exclude<T, false>>> {
  for (const end = Date.now() + PATIENCE_MS; Date.now() < end; await Bun.sleep(2)) {
    const value = await condition();
    if (value !== undefined && value !== null && value !== false) return value as NonNullable<Exclude<T, false>>;
  }
  throw new Error(`${what} did not come to hold`);
}
