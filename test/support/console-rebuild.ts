import type { Call } from './console-data.ts';
import type { TestDatabase } from './database.ts';
import { until } from './until.ts';

const CANDIDATES = 12;

/** A rebuild that waits for its switch: one row of the living tables is wrong, one is missing, one should not be there. */
export async function feedRebuild(call: Call, database: TestDatabase): Promise<void> {
  const messages = Array.from({ length: CANDIDATES }, (_, index) => ({
    id: `applied-${index}`,
    type: 'urn:ekp:events/candidate-applied',
    key: `candidate-${100 + index}`,
    payload: { candidateId: `candidate-${100 + index}`, name: `Ada ${index}` },
  }));
  await call('POST', '/v1/messages/batch', { messages });
  await until(async () => {
    const [row] = await database.query<{ n: number }>('SELECT count(*)::int AS n FROM recruitment.candidate');
    return row!.n === CANDIDATES;
  });
  await database.query(`UPDATE recruitment.candidate SET name = 'wrong' WHERE id = 'candidate-101'`);
  await database.query(`DELETE FROM recruitment.candidate WHERE id = 'candidate-102'`);
  await database.query(`INSERT INTO recruitment.vacancy (id) VALUES ('vacancy-7')`);
  await call('POST', '/v1/read-models/recruitment/rebuild', { dryRun: true });
  await rebuildReached(call, 'recruitment', 'ready');
}

export async function rebuildReached(call: Call, model: string, status: string): Promise<void> {
  await until(async () => (await call('GET', `/v1/read-models/${model}`)).rebuild?.status === status);
}
