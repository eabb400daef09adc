import pg from 'pg';
import { Progress } from '../harness/progress.mjs';

export { seed, setup } from './sluice-rebuild.mjs';

/** What a rebuild does, as one statement over all messages, each of another key: no application code sees them. */
const ALL_AT_ONCE = `
  INSERT INTO counter.counter AS counter (key, n, last) SELECT key, 1, payload->>'text' FROM inbox WHERE settled_at IS NOT NULL
  ON CONFLICT (key) DO UPDATE SET n = counter.n + 1, last = EXCLUDED.last`;

export async function drain({ url, ...counts }) {
  const progress = new Progress({ ...counts, warmUp: 0 });
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  progress.handled(0);
  await client.query(ALL_AT_ONCE);
  progress.handled(counts.until);
  const result = await progress.over();
  await client.end();
  return result;
}
