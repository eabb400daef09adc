import { service } from './paths.mjs';
import { KEYS, keyOf, TEXT, TYPE } from './workload.mjs';

/** Stores finished messages of the workload, as if the inbox had applied them. `prefix`: of their ids. */
export async function insertFinished(pool, count, prefix = 'm') {
  const { laneOf } = await service('lanes/lane-of.js');
  const keys = Array.from({ length: KEYS }, (_, index) => keyOf(index));
  const lanes = keys.map((key) => laneOf(key, 256));
  await pool.query(
    `INSERT INTO inbox (id, source, type, key, lane, payload, status, attempt, settled_at)
     SELECT '${prefix}-' || i, 'bench', $3, ($1::text[])[1 + i % ${KEYS}], ($2::int[])[1 + i % ${KEYS}],
            json_build_object('n', i, 'text', '${TEXT}'), 'finished', 1, now() FROM generate_series(1, ${count}) AS i`,
    [keys, lanes, TYPE],
  );
}
