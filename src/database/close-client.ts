import type pg from 'pg';

/** An unreachable server never confirms that a connection was closed. */
const MAX_CLOSE_MS = 1_000;

/** Closes a connection outside of a pool. The `end()` of node-postgres waits for ever if the server does not reply. */
export async function closeClient(client: pg.Client): Promise<void> {
  const timer = setTimeout(() => destroyConnection(client), MAX_CLOSE_MS);
  await client.end().catch(() => undefined);
  clearTimeout(timer);
}

/** Every pending statement of the connection fails at once. */
export function destroyConnection(client: pg.Client): void {
  (client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy();
}
