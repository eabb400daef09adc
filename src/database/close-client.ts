import type pg from 'pg';

/** A server that is cut off closes nothing. */
const MAX_PATIENCE_MS = 1_000;

/** Ends a connection outside of a pool. `end()` of node-postgres waits without end for a server that does not answer. */
export async function closeClient(client: pg.Client): Promise<void> {
  const { stream } = (client as unknown as { connection: { stream: { destroy(): void } } }).connection;
  const timer = setTimeout(() => stream.destroy(), MAX_PATIENCE_MS);
  await client.end().catch(() => undefined);
  clearTimeout(timer);
}
