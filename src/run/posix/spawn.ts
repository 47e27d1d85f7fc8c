/** posix_spawnp as execvp would have started the program: environment, limits and scripts without `#!` included. */
import { cStringArray, environAddress, errnoName, integers, type Libc, memory, readCStrings } from "../../base/libc.ts";
import type { EnvironmentChange, LaunchRequest } from "../launcher.ts";
import { interpretWithSh } from "../program-lookup.ts";

const RLIMIT_NOFILE = 7;
const SPAWN_SETSIGDEF = 0x04;
const SPAWN_SETSID = 0x80;
const BUSY_RETRY_MS = 250;
const BUSY_WAIT_MS = 10;

/** The child's pid, or the errno's name. `actions` is a prepared posix_spawn_file_actions_t. */
export function spawnProgram(libc: Libc, request: LaunchRequest, actions: Uint8Array): number | string {
  const attributes = memory(512);
  libc.posix_spawnattr_init(attributes);
  libc.posix_spawnattr_setflags(attributes, request.pty ? SPAWN_SETSIGDEF | SPAWN_SETSID : SPAWN_SETSIGDEF);
  libc.posix_spawnattr_setsigdefault(attributes, defaultSignals());
  const environ = environAddress(libc);
  const changed =
    request.environment === null ? null : cStringArray(applyChange(readCStrings(environ), request.environment));
  const pid = integers(1);
  const spawn = (argv: readonly Uint8Array[]): number => {
    const words = cStringArray(argv);
    const environment = (changed?.pointers ?? environ) as never;
    return libc.posix_spawnp(pid, words.bytes, actions, attributes, words.pointers, environment);
  };
  const restoreLimit = useCallersDescriptorLimit(libc);
  let error = spawn(request.argv);
  for (let waited = 0; error !== 0 && errnoName(error) === "ETXTBSY" && waited < BUSY_RETRY_MS; ) {
    Bun.sleepSync(BUSY_WAIT_MS);
    waited += BUSY_WAIT_MS;
    error = spawn(request.argv);
  }
  // execvp runs a file with no `#!` line through /bin/sh; posix_spawnp does not.
  if (error !== 0 && errnoName(error) === "ENOEXEC") {
    const argv = interpretWithSh(request);
    if (argv !== null) error = spawn(argv);
  }
  restoreLimit();
  return error === 0 ? pid[0]! : errnoName(error);
}

/**
 * A sigset_t of what is default in the child whatever it is here: SIGPIPE and SIGXFSZ, which our runtime ignores for itself
 * and so hides what the caller had; and the C library's own 32 and 33, which posix_spawn would leave ignored.
 */
function defaultSignals(): Uint8Array {
  const set = memory(128);
  for (const number of [13, 25, 32, 33]) set[(number - 1) >> 3]! |= 1 << ((number - 1) & 7);
  return set;
}

/**
 * The runtime raises the soft limit of open descriptors to the hard one before our code. The caller's is taken from
 * our parent, when the hard limits agree.
 */
function useCallersDescriptorLimit(libc: Libc): () => void {
  const own = new BigUint64Array(new ArrayBuffer(16));
  const parent = new BigUint64Array(new ArrayBuffer(16));
  libc.prlimit(0, RLIMIT_NOFILE, null, own);
  const known = libc.prlimit(libc.getppid(), RLIMIT_NOFILE, null, parent) === 0;
  if (!known || parent[1] !== own[1] || parent[0]! >= own[0]!) return () => {};
  libc.prlimit(0, RLIMIT_NOFILE, parent, null);
  return () => libc.prlimit(0, RLIMIT_NOFILE, own, null);
}

function applyChange(entries: Buffer[], change: EnvironmentChange): Uint8Array[] {
  const kept: Uint8Array[] = entries.filter((entry) => {
    const equals = entry.indexOf(0x3d);
    if (equals < 0) return true;
    const name = entry.toString("utf8", 0, equals);
    return !(change.set.has(name) || change.unset.has(name));
  });
  for (const [name, value] of change.set) kept.push(Buffer.concat([Buffer.from(`${name}=`), value]));
  return kept;
}
