import type { Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { isSilent } from './faults.ts';

/** A server that is cut off closes nothing. */
const MAX_PATIENCE_MS = 1_000;

/**
 * Resolves `end()` when its connections are closed. That of node-postgres only tells the idle ones to close: a server that
 * is stopped next still finds them. One that was given up is not waited for: it may not answer.
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
      // Where one has gone silent, those that idle have, too: each would be waited for as long.
      if (!this.ending && (isSilent(error) || wasGivenUp(client))) this.dropIdle().catch(() => undefined);
    });
  }

  /** Gives up the connections that nobody uses. */
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
    await Promise.race([closed, delay(MAX_PATIENCE_MS, undefined, { ref: false })]);
  }
}

/** By us, after a statement that was not answered; else the server said something, or its machine did. */
function wasGivenUp(client: pg.PoolClient): boolean {
  const { stream } = (client as unknown as { connection: { stream: Socket } }).connection;
  return stream.destroyed && !stream.errored && !stream.readableEnded;
}
