/** What a run is asked to be: complete and checked before anything is started. */
import type { EnvironmentChange } from "./launcher.ts";

export interface RunRequest {
  /** Byte strings, at least one, none with a NUL. */
  argv: readonly Uint8Array[];
  /** Absolute working directory of the child; null: the caller's. */
  cwd: Uint8Array | null;
  environment: EnvironmentChange | null;
  labels: Readonly<Record<string, string>>;
  quickview: boolean;
  /** Fixed interval between samples; null: adaptive. */
  sampleMs: number | null;
  /** `auto`: captured when nobody else reads our stdin, else inherited. */
  stdin: "auto" | "inherit" | "capture" | "null" | { file: Uint8Array };
  limits: RunLimits;
  /** Run on a pseudo-terminal. */
  pty: boolean;
  /** Pass the output on to our own stdout and stderr. */
  tee: boolean;
  /** Where the completion goes instead of stdout; not handed to the child. */
  reportFd: number | null;
  /** Names of the variables to record. */
  recordEnv: readonly string[];
  /** Paths whose files are observed before and after the run, relative to the caller's directory. */
  track: readonly Uint8Array[];
  /** Everything is on the disk before the completion is printed. */
  durable: boolean;
  /** Refuse to start when no evidence can be kept. */
  requireEvidence: boolean;
}

export interface RunLimits {
  /** null: none. */
  timeoutMs: number | null;
  /** From asking a tree to stop to killing it. */
  killAfterMs: number;
  /** How long streams may stay open after the child's exit. */
  lingerMs: number;
  /** stdout and stderr together; null: no budget. */
  maxOutputBytes: number | null;
  /** Forwarded stdin; null: no budget. */
  maxStdinBytes: number | null;
}

export const DEFAULT_LIMITS: RunLimits = {
  timeoutMs: null,
  killAfterMs: 2000,
  lingerMs: 250,
  maxOutputBytes: 256 * 2 ** 20,
  maxStdinBytes: 256 * 2 ** 20,
};

export function plainRequest(argv: readonly Uint8Array[], limits: RunLimits): RunRequest {
  return {
    argv,
    cwd: null,
    environment: null,
    labels: {},
    quickview: true,
    sampleMs: null,
    stdin: "auto",
    limits,
    pty: false,
    tee: false,
    reportFd: null,
    recordEnv: [],
    track: [],
    durable: false,
    requireEvidence: false,
  };
}
