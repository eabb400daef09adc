import pg from 'pg';
import type { TestDatabase } from './database.ts';
import { until } from './until.ts';

/** A database connection outside of the service, to block its statements with locks. */
export interface BlockingSession {
  query(sql: string): Promise<unknown>;
  close(): Promise<void>;
}

export async function openSession(database: TestDatabase): Promise<BlockingSession> {
  const client = new pg.Client({ connectionString: database.url, application_name: 'sluice test session' });
  client.on('error', () => undefined);
  await client.connect();
  return { query: (sql) => client.query(sql), close: () => client.end() };
}

/** Resolves when a statement of the service waits for a lock. */
export async function untilBlocked(database: TestDatabase): Promise<void> {
  await until(async () => {
    const rows = await database.query(
      `SELECT 1 FROM pg_stat_activity
       WHERE datname = current_database() AND application_name = 'sluice engine' AND wait_event_type = 'Lock'`,
    );
    return rows.length > 0;
  });
}
