/** What a verb of `ashctl` is: the definition that parsing, help and the generated reference share, and its action. */
import type { Arguments } from "./arguments.ts";

export interface OptionDefinition {
  name: string;
  /** What stands for the value in help; absent: a switch. */
  value?: string;
  /** May be given several times. */
  repeat?: boolean;
  /** Imperative, without full stop; with the default. */
  help: string;
}

export interface CommandDefinition {
  name: string;
  /** One line. */
  summary: string;
  positionals: readonly string[];
  /** What stands behind `--` in the usage line; absent: nothing may. */
  child?: string;
  options: readonly OptionDefinition[];
  examples: readonly (readonly [command: string, what: string])[];
  exits: readonly (readonly [code: string, what: string])[];
}

/** What every verb needs of the process. Built once, passed down. */
export interface CommandContext {
  json: boolean;
  /** What --json or --format asked for; null: nothing was asked. */
  format: "json" | "human" | null;
  /** `--root`, as typed. */
  root: string | null;
}

export interface Command {
  definition: CommandDefinition;
  /** Answers on stdout. Returns the exit code; throws AshError. */
  run(context: CommandContext, arguments_: Arguments): Promise<number>;
}
