const SHARE = 4;
/** So quick that writing the run down and claiming the next one takes as long as sending it. */
const QUICK_MS = 250;

/** What is claimed of a lane before anything is known of its receiver: what is claimed and not sent has to be put back. */
export function firstRun(most: number): number {
  return Math.ceil(most / SHARE);
}

/**
 * What is claimed of it next, when a whole run was sent. Between two runs a lane waits for two commits; measured with a
 * receiver that answers at once, a third to a half of its time went by in runs of 32.
 */
/* One at a time is for a reason (a crash before, a rate for each key) and stays; OUTBOX_RUN is 8 or more, a first run 2. */
export function nextRun(sent: number, tookMs: number, most: number): number {
  const quick = sent === firstRun(most) && tookMs < QUICK_MS;
  return quick ? most : sent;
}
