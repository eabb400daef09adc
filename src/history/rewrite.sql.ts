/** history.rewrite — blocks are replaced and removed by one transaction at a time. */
export const LOCK_REWRITES = `SELECT pg_advisory_xact_lock(hashtext('sluice'), hashtext('history.rewrite'))`;

/** history.small — $1 messages, $2 bytes: a block with fewer of both is small; $3 max blocks */
export const SMALL_BLOCKS = `
  SELECT id, lane_group AS "laneGroup", types, count, bytes FROM archive_block WHERE count < $1 AND bytes < $2
  ORDER BY lane_group, first_applied, first_position, id LIMIT $3`;

/** history.aged — blocks whose newest message was received that long ago. $1 ms, $2 after block, $3 max blocks */
export const AGED_BLOCKS = `
  SELECT id, types, (extract(epoch FROM now() - to_at) * 1000)::float8 AS "ageMs" FROM archive_block
  WHERE to_at < now() - $1::bigint * interval '1 millisecond' AND id > $2 ORDER BY id LIMIT $3`;

/** history.blocksOf — $1 lane group, $2 after block, $3 max blocks */
export const BLOCKS_OF =
  'SELECT id FROM archive_block WHERE lane_group = $1 AND id > $2 ORDER BY id LIMIT $3';

export const BODY_OF = 'SELECT body FROM archive_block WHERE id = $1';

/** history.take — the bodies of blocks that are replaced. $1 blocks */
export const TAKE_BLOCKS = 'DELETE FROM archive_block WHERE id = ANY ($1::bigint[]) RETURNING id, body';

/** history.needed — blocks that a rebuild of a read model has yet to read. $1 blocks */
export const NEEDED_BLOCKS = `
  SELECT id FROM archive_block AS block WHERE id = ANY ($1::bigint[]) AND EXISTS (
    SELECT FROM rebuild_history AS reading WHERE reading.lane_group = block.lane_group AND NOT complete
      AND (block.last_applied, block.last_position) > (reading.applied, reading.position)) LIMIT 1`;

/** history.forget — the identities of messages that are removed. $1 ids, $2 sources, $3 positions */
export const FORGET = `
  DELETE FROM archive_id USING unnest($1::text[], $2::text[], $3::bigint[]) AS gone(id, source, position)
  WHERE archive_id.id = hashtextextended(gone.id, 0) AND archive_id.identity = archive_identity(gone.source, gone.id)
    AND archive_id.place / 16 = gone.position`;

/** history.addGap — $1 types, $2 when the last of each was received */
export const ADD_GAP = `
  INSERT INTO history_gap (type, "to") SELECT * FROM unnest($1::text[], $2::timestamptz[])
  ON CONFLICT (type) DO UPDATE SET "to" = GREATEST(history_gap."to", EXCLUDED."to")`;

/** history.partitions — for this month and the next. A month whose partition came too late stays in the default partition. */
export const ADD_PARTITIONS = `
  SELECT archive_partition(month) FROM unnest(ARRAY[now(), now() + interval '1 month']) AS month
  WHERE to_regclass('archive_block_' || to_char(month AT TIME ZONE 'UTC', 'YYYY_MM')) IS NULL
    AND NOT EXISTS (
      SELECT FROM archive_block_other WHERE written_at >= date_trunc('month', month AT TIME ZONE 'UTC') AT TIME ZONE 'UTC')`;

/** history.oldPartitions — those of months before the last one. */
export const OLD_PARTITIONS = `
  SELECT child.relname AS name FROM pg_inherits JOIN pg_class AS child ON child.oid = inhrelid
  WHERE inhparent = 'archive_block'::regclass AND child.relname ~ '^archive_block_\\d{4}_\\d\\d$'
    AND child.relname < 'archive_block_' || to_char((now() - interval '1 month') AT TIME ZONE 'UTC', 'YYYY_MM')
  ORDER BY 1`;

/** history.dropPartition — if nothing is in it. Nothing is written to a past month. */
export const IS_EMPTY = (name: string) => `SELECT NOT EXISTS (SELECT FROM ${name}) AS empty`;
export const DROP_PARTITION = (name: string) => `DROP TABLE ${name}`;
