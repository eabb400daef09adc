/** Above every character that a name may contain, in the order of the names. */
const END = `U&'\\+10FFFF'`;
const NAMED = (kind: string, table: string, more = '') => `
  (SELECT '${kind}' AS kind, name AS id, NULL::text AS source, NULL::text AS status, NULL::text AS type, NULL::timestamptz AS at
   FROM ${table} WHERE name >= $1::text AND name < $1 || ${END} ${more} ORDER BY name LIMIT $2)`;

/** Compared as a row, in the order of the primary key: otherwise the index by the end of holds is used. */
const HELD_KEY = `('inbox', $3::integer, $1::text)`;

/**
 * find — messages by their id, a key that has or had messages or is held, and names that start with the text: each by an index.
 * $1 text, $2 max of each kind, $3 the lane of the key
 */
export const FIND = `
  (SELECT 'message' AS kind, id, source, status, type, received_at AS at FROM inbox WHERE id = $1 ORDER BY source LIMIT $2)
  UNION ALL
  (SELECT 'key', $1, NULL, NULL, NULL, NULL::timestamptz
   WHERE EXISTS (SELECT FROM inbox WHERE key = $1) OR EXISTS (
     SELECT FROM (
       SELECT until FROM hold WHERE (queue, lane, key) >= ${HELD_KEY} AND (queue, lane, key) <= ${HELD_KEY}
       ORDER BY queue, lane, key LIMIT 1) AS held WHERE until > clock_timestamp()))
  UNION ALL
  ${NAMED('listener', 'listener', 'AND deleted_at IS NULL')}
  UNION ALL
  ${NAMED('topic', 'topic', 'AND deleted_at IS NULL')}
  UNION ALL
  ${NAMED('group', 'consumer_group')}
  UNION ALL
  ${NAMED('schedule', 'schedule')}`;
