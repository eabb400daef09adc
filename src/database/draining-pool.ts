import type { Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { isReadTimeout } from './errors.ts';

/** An unreachable server never confirms that a connection was closed. */
const MAX_CLOSE_MS = 1_000;

/**
 * A pool whose `end()` resolves when its connections are closed. The `end()` of node-postgres only starts to close the idle
 * ones, so that a server which is stopped next still has connections. A connection that was discarded after an error is
 * not waited for: its server may not reply.
 */
export class DrainingPool extends pg.Pool {
  private readonly open = new Map<pg.PoolClient, Promise<void>>();

  constructor(options: pg.PoolConfig) {
    super(options);
    this.on('connect', (client) => {
      const closed = new Promise<void>((resolve) => client.once('end', resolve));
      this.open.set(client, closed);
      void closed.then(() => this.open.delete(client));
    });
    this.on('release', (error, client) => {
      if (error) this.open.delete(client);
      // If one connection is dead, the idle ones probably are, too, and each of them would cost another full timeout.
      if (!this.ending && (isReadTimeout(error) || timedOut(client))) this.dropIdle().catch(() => undefined);
    });
  }

  /** Closes the idle connections. */
  async dropIdle(): Promise<void> {
    for (let left = this.idleCount; left > 0 && this.idleCount > 0; left--) {
      const client = await this.connect();
      client.release(true);
    }
  }

  override end(): Promise<void>;
  override end(callback: (error?: Error) => void): void;
  override end(callback?: (error?: Error) => void): Promise<void> | void {
    const ended = this.closed();
    if (!callback) return ended;
    ended.then(() => callback(), callback);
  }

  private async closed(): Promise<void> {
    await super.end();
    const closed = Promise.all(this.open.values());
    await Promise.race([closed, delay(MAX_CLOSE_MS, undefined, { ref: false })]);
  }
}

/** The socket was destroyed by this process after a timeout, and not closed or reset by the server. */
function timedOut(client: pg.PoolClient): boolean {
  const { stream } = (client as unknown as { connection: { stream: Socket } }).connection;
  return stream.destroyed && !stream.errored && !stream.readableEnded;
}
