/** Why the run ends, and what the broker exits with. The first reason wins; how the child ended is another fact. */
import { EXIT_BROKER, EXIT_TIMED_OUT } from "../base/exit-codes.ts";
import { signalNumber } from "../base/signals.ts";
import type { Exit, State } from "../evidence/receipt.ts";
import type { StartFailure } from "./program-lookup.ts";

type Reason =
  | { state: "timed_out" | "output_limited" | "input_limited" }
  | { state: "cancelled"; signal: number }
  | { state: "failed_to_start"; failure: StartFailure };

export class Ending {
  private reason: Reason | null = null;

  /** False when there was a reason before. */
  set(reason: Reason): boolean {
    if (this.reason !== null) return false;
    this.reason = reason;
    return true;
  }

  get state(): State {
    return this.reason?.state ?? "completed";
  }

  get failure(): StartFailure | null {
    return this.reason?.state === "failed_to_start" ? this.reason.failure : null;
  }

  exitCode(exit: Exit): number {
    switch (this.reason?.state) {
      case undefined:
        return exitCodeOf(exit);
      case "timed_out":
        return EXIT_TIMED_OUT;
      case "cancelled":
        return 128 + this.reason.signal;
      case "failed_to_start":
        return this.reason.failure.exitCode;
      default:
        return EXIT_BROKER;
    }
  }
}

function exitCodeOf({ kind, code, signal }: Exit): number {
  if (kind === "code" && code !== null) return code;
  return kind === "signal" && signal !== null ? 128 + (signalNumber(signal) ?? 0) : EXIT_BROKER;
}
