/** history.failed — `since` stays the time of the first failure. $1 work, $2 error */
export const FAILED = `
  INSERT INTO history_failure (work, error) VALUES ($1, $2) ON CONFLICT (work) DO UPDATE SET error = EXCLUDED.error`;

/** history.succeeded — $1 work */
export const SUCCEEDED = 'DELETE FROM history_failure WHERE work = $1';
