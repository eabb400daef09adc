/** One channel for all queues of a database; the payload names the queues and their lanes. */
export const CHANNEL = 'sluice_written';

/** Sent on its own, never in the transaction that writes: there it would serialise all commits (measured: 4.3 ×). */
export const NOTIFY = `SELECT pg_notify('${CHANNEL}', $1)`;
