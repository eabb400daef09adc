/** Time limits for each way to stop a postmaster. */
export interface StopTimeouts {
  fastMs: number;
  immediateMs: number;
}

const STOP_TIMEOUTS: StopTimeouts = { fastMs: 20_000, immediateMs: 15_000 };

/**
 * Stops a postmaster: fast (SIGINT: roll back, checkpoint, exit), and if that hangs, immediate (SIGQUIT: like a power
 * cut, the next start recovers from the WAL; the postmaster kills backends that do not exit within 5 s). Never SIGKILL:
 * backends would continue to write without their postmaster. Returns false if it is still running.
 */
export async function shutDown(
  signal: (name: 'SIGINT' | 'SIGQUIT') => void,
  gone: (withinMs: number) => Promise<boolean>,
  timeouts: StopTimeouts = STOP_TIMEOUTS,
): Promise<boolean> {
  signal('SIGINT');
  if (await gone(timeouts.fastMs)) return true;
  signal('SIGQUIT');
  return gone(timeouts.immediateMs);
}
