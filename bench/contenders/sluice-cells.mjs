import pg from 'pg';
import { service } from '../harness/paths.mjs';
import { CREATE_COUNTER } from '../harness/workload.mjs';

export { serve } from './sluice.mjs';

/** The home cell is migrated before the replica starts; the others by it. */
export async function setup({ url, isHome = true }) {
  if (isHome) {
    const [{ migrate }, { schemaOf }, { loadSettings }] = await Promise.all(
      ['database/migrate.js', 'schema.js', 'config/settings.js'].map(service),
    );
    await migrate(url, loadSettings({}), schemaOf([]));
  }
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(CREATE_COUNTER);
  await client.end();
}
