import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { isDatabaseAway } from '../src/database/errors.ts';

/** A connection that no fault is injected on. Its queries wait while the database is unavailable. */
export class ObserverDatabase {
  private readonly pool: pg.Pool;

  constructor(url: string) {
    this.pool = new pg.Pool({
      connectionString: url,
      options: '-c search_path=chain,public',
      max: 3,
      application_name: 'sluice chaos',
    });
    this.pool.on('error', () => undefined);
  }

  async query<Row>(sql: string, parameters: unknown[] = []): Promise<Row[]> {
    for (;;) {
      try {
        const { rows } = await this.pool.query(sql, parameters);
        return rows as Row[];
      } catch (error) {
        if (!isDatabaseAway(error)) throw error;
        await pause(100);
      }
    }
  }

  async close(): Promise<void> {
    await this.pool.end();
  }
}
