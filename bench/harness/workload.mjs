/** The workload of all contenders: ten thousand keys in turn, a payload of about 220 bytes, one upsert per message. */
export const KEYS = 10_000;
export const TYPE = 'urn:bench:counted';
/** The same for messages that are polled from a topic, and for those that are pulled from a work queue. */
export const POLLED_TYPE = 'urn:bench:polled';
export const PULLED_TYPE = 'urn:bench:pulled';
export const TEXT = 'x'.repeat(200);

export const CREATE_COUNTER =
  'CREATE TABLE counter (key text PRIMARY KEY, n integer NOT NULL, last text NOT NULL)';

export const UPSERT = `INSERT INTO counter (key, n, last) VALUES ($1, 1, $2)
  ON CONFLICT (key) DO UPDATE SET n = counter.n + 1, last = EXCLUDED.last`;

/** The same for a whole batch: $1 keys, $2 texts. */
export const UPSERT_ALL = `INSERT INTO counter (key, n, last)
  SELECT key, count(*), max(last) FROM unnest($1::text[], $2::text[]) AS counted(key, last) GROUP BY key ORDER BY key
  ON CONFLICT (key) DO UPDATE SET n = counter.n + EXCLUDED.n, last = EXCLUDED.last`;

export function keyOf(index) {
  return `key-${index % KEYS}`;
}

export function payloadOf(index) {
  return { n: index, text: TEXT };
}
