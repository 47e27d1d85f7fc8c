export async function main(_w: readonly Buffer[]): Promise<number> {
  return 2;
}
