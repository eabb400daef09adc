/** How long a postmaster may take for each way to stop. */
export interface Patience {
  fastMs: number;
  immediateMs: number;
}

const PATIENCE: Patience = { fastMs: 20_000, immediateMs: 15_000 };

/**
 * Stops a postmaster: fast (SIGINT: roll back, checkpoint, leave), and when that hangs, immediate (SIGQUIT:
 * like a power cut, the next start recovers from the log; the postmaster kills what does not leave within
 * 5 s). Never SIGKILL: it would leave backends writing without their postmaster. False when it is still there.
 */
export async function shutDown(
  signal: (name: 'SIGINT' | 'SIGQUIT') => void,
  gone: (withinMs: number) => Promise<boolean>,
  patience: Patience = PATIENCE,
): Promise<boolean> {
  signal('SIGINT');
  if (await gone(patience.fastMs)) return true;
  signal('SIGQUIT');
  return gone(patience.immediateMs);
}
