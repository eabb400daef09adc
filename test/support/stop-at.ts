import type { TestDatabase } from './database.ts';
import { openSession } from './session.ts';
import { until } from './until.ts';

/** Stops every statement of this kind, such as `UPDATE ON ledger FOR EACH ROW`, until `goOn` is called. */
export async function stopAt(database: TestDatabase, table: string, when: string) {
  await database.query(`CREATE OR REPLACE FUNCTION stop_here() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN PERFORM pg_advisory_xact_lock(4711); RETURN COALESCE(NEW, OLD); END $$`);
  await database.query(`CREATE OR REPLACE TRIGGER stop_here BEFORE ${when} EXECUTE FUNCTION stop_here()`);
  const session = await openSession(database);
  await session.query('SELECT pg_advisory_lock(4711)');
  return {
    /** `ms`: as long as a loaded machine may take. */
    reached: (ms: number) =>
      until(async () => {
        const waiting = `SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711 AND NOT granted`;
        return (await database.query(waiting)).length > 0;
      }, ms),
    async goOn() {
      // Before the trigger: its table is locked by the statement that waits.
      await session.close();
      await database.query(`DROP TRIGGER stop_here ON ${table}`);
    },
  };
}
