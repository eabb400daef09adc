import { withinBytes } from '../../http/page-bytes.ts';

const COLUMNS = `name, cron, timezone, type, payload::text AS payload, key, on_missed, paused, next_at, last_at, created_at,
  created_by, updated_at, updated_by`;

/** schedule.lock — locks the schedule to be changed. NOW is the clock that all schedules use. $1 name */
export const LOCK_SCHEDULE = `SELECT ${COLUMNS} FROM schedule WHERE name = $1 FOR UPDATE`;
export const NOW = 'SELECT clock_timestamp() AS now';

/** $1 name, $2 cron, $3 timezone, $4 type, $5 payload, $6 key, $7 on missed, $8 next, $9 by */
export const PUT_SCHEDULE = `
  INSERT INTO schedule (name, cron, timezone, type, payload, key, on_missed, next_at, created_by, updated_by)
  VALUES ($1, $2, $3, $4, $5::json, $6, $7, $8, $9, $9)
  ON CONFLICT (name) DO UPDATE
  SET cron = EXCLUDED.cron, timezone = EXCLUDED.timezone, type = EXCLUDED.type, payload = EXCLUDED.payload,
      key = EXCLUDED.key, on_missed = EXCLUDED.on_missed, next_at = EXCLUDED.next_at, updated_at = now(),
      updated_by = EXCLUDED.updated_by
  RETURNING ${COLUMNS}`;

/** $1 name, $2 paused, $3 next, $4 by */
export const SET_PAUSED = `
  UPDATE schedule SET paused = $2, next_at = $3, updated_at = now(), updated_by = $4 WHERE name = $1
  RETURNING ${COLUMNS}`;

export const DELETE_SCHEDULE = 'DELETE FROM schedule WHERE name = $1';

export const FIND_SCHEDULE = `SELECT ${COLUMNS} FROM schedule WHERE name = $1`;

/** schedule.list — by name. $1 after, $2 max */
export const LIST_SCHEDULES = `${withinBytes(
  `SELECT ${COLUMNS} FROM schedule WHERE name > $1 ORDER BY name LIMIT $2`,
  'name',
)} ORDER BY name`;

/**
 * schedule.takeDue — locks due schedules until the transaction that posts their messages ends. Meanwhile other replicas
 * skip them, and afterwards they find a later next_at: each tick is posted by one replica, by one clock. $1 max schedules,
 * $2 names that this replica leaves to others
 */
export const TAKE_DUE = `
  SELECT ${COLUMNS}, clock_timestamp() AS now FROM schedule
  WHERE NOT paused AND next_at <= clock_timestamp() AND name <> ALL ($2::text[]) ORDER BY next_at LIMIT $1 FOR UPDATE SKIP LOCKED`;

/** $1 name, $2 next, $3 last or null */
export const ADVANCE = 'UPDATE schedule SET next_at = $2, last_at = COALESCE($3, last_at) WHERE name = $1';

/** schedule.untilNext — milliseconds. $1 names that this replica leaves to others */
export const UNTIL_NEXT = `
  SELECT ceil(extract(epoch FROM next_at - clock_timestamp()) * 1000)::bigint AS ms FROM schedule
  WHERE NOT paused AND name <> ALL ($1::text[]) ORDER BY next_at LIMIT 1`;
