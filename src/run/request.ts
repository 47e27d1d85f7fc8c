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
  /** How long streams may stay open after the child's exit. */
  lingerMs: number;
}

export const DEFAULT_LINGER_MS = 250;

export function plainRequest(argv: readonly Uint8Array[]): RunRequest {
  return {
    argv,
    cwd: null,
    environment: null,
    labels: {},
    quickview: true,
    sampleMs: null,
    lingerMs: DEFAULT_LINGER_MS,
  };
}
