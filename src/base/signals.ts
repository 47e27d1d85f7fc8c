/** Signal numbers of Linux on x86-64 and arm64, by name. Unnamed ones (real-time) keep their number: `SIG34`. */
const NAMES =
  "HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD CONT STOP TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS".split(
    " ",
  );

export function signalName(number: number): string {
  return `SIG${NAMES[number - 1] ?? number}`;
}

/** The number behind `SIGTERM` or `SIG34`; null when there is none. */
export function signalNumber(name: string): number | null {
  const short = name.startsWith("SIG") ? name.slice(3) : name;
  const index = NAMES.indexOf(short);
  if (index >= 0) return index + 1;
  return /^[1-9][0-9]?$/.test(short) && Number(short) <= 64 ? Number(short) : null;
}
