import pg from 'pg';

/** Keeps a snapshot open from another session; returns how to end it. */
export async function pin(url) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
  await client.query('SELECT count(*) FROM lane');
  return () => client.end();
}
