/** Exit codes of all commands. */
export const EXIT = {
  ok: 0,
  /** The service refused the request, or a check failed. */
  failed: 1,
  /** The command line is invalid. */
  usage: 2,
  /** The service cannot be reached, or the port of a receiver is not available. */
  unreachable: 3,
} as const;

/** Ends the command with a message and an exit code. */
export class CliError extends Error {
  constructor(
    message: string,
    readonly exitCode: number,
    readonly problem?: unknown,
    /** A retry may succeed. */
    readonly transient = false,
  ) {
    super(message);
    this.name = 'CliError';
  }
}

export function usageError(message: string): CliError {
  return new CliError(message, EXIT.usage);
}
