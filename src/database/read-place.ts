import { AsyncLocalStorage } from 'node:async_hooks';
import type pg from 'pg';
import { DrainingPool } from './draining-pool.ts';
import type { StandbyRun } from './standby-run.ts';

/** Where the reads of this request go; undefined: to the primary. */
const place = new AsyncLocalStorage<StandbyRun | undefined>();

/** All connections that `work` takes from the ReadPool are to this standby, or to the primary. */
export function readAt<Result>(standby: StandbyRun | undefined, work: () => Result): Result {
  return place.run(standby, work);
}

type Connected = (error: Error | undefined, client: pg.PoolClient | undefined, done: () => void) => void;

/** TypeORM's pool to the primary. A request that reads from a standby gets its connections from there instead. */
export class ReadPool extends DrainingPool {
  override connect(): Promise<pg.PoolClient>;
  override connect(callback: Connected): void;
  // biome-ignore lint/suspicious/noConfusingVoidType: the signature of node-postgres
  override connect(callback?: Connected): Promise<pg.PoolClient> | void {
    const standby = place.getStore();
    const connect = standby ? standby.pool.connect.bind(standby.pool) : super.connect.bind(this);
    return callback ? connect(callback as never) : connect();
  }

  /** Of the primary, whoever noticed that its connections are dead. */
  override dropIdle(): Promise<void> {
    return readAt(undefined, () => super.dropIdle());
  }
}
