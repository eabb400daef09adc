import type pg from 'pg';

/** A server that is cut off closes nothing. */
const MAX_PATIENCE_MS = 1_000;

/** Ends a connection outside of a pool. `end()` of node-postgres waits without end for a server that does not answer. */
export async function closeClient(client: pg.Client): Promise<void> {
  const timer = setTimeout(() => destroyConnection(client), MAX_PATIENCE_MS);
  await client.end().catch(() => undefined);
  clearTimeout(timer);
}

/** Whatever is waited for on it fails at once. */
export function destroyConnection(client: pg.Client): void {
  (client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy();
}
