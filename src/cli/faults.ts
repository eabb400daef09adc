/** What a command ends with; scripts can go by it. */
export const EXIT = {
  ok: 0,
  /** The service refused it, or what was looked at is not well. */
  refused: 1,
  /** The command was not understood. */
  usage: 2,
  /** The service cannot be reached, or the port of a receiver cannot be had. */
  unreachable: 3,
} as const;

/** Ends the command with a line for a person and a code for a script. */
export class Fault extends Error {
  constructor(
    message: string,
    readonly exitCode: number,
    readonly problem?: unknown,
    /** It may go well in a moment. */
    readonly passing = false,
  ) {
    super(message);
    this.name = 'Fault';
  }
}

export function usageFault(message: string): Fault {
  return new Fault(message, EXIT.usage);
}
