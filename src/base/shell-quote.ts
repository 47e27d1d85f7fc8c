/** One argument as a POSIX shell reads it back unchanged. Only for text that we print; nothing here parses shell. */
export function quoteArgument(argument: string): string {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(argument) ? argument : `'${argument.replaceAll("'", "'\\''")}'`;
}
