/** The same bytes for the same seed, of any length; every value occurs. */
export function randomBytes(length: number, seed: number): Buffer {
  const bytes = Buffer.alloc(length);
  let state = (seed * 2654435761 + 1) >>> 0;
  for (let i = 0; i < length; i += 1) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    bytes[i] = state >>> 24;
  }
  return bytes;
}
