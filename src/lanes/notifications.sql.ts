/** One channel for all queues of a database; the payload says which lanes of which queue. */
export const CHANNEL = 'sluice_written';

/** Sent by itself, never in the transaction that writes: inside, it would serialise all commits (measured: 4.3 ×). */
export const NOTIFY = `SELECT pg_notify('${CHANNEL}', $1)`;
