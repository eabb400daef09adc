/** Lane groups whose history is not read to its end. $1 rebuild */
export const HISTORY_LEFT = `
  SELECT lane_group::int AS "group", applied, position FROM rebuild_history WHERE rebuild = $1 AND NOT complete`;

/** $1 rebuild, $2 first lane, $3 last lane */
export const LANES_BETWEEN = `
  SELECT lane, applied, position FROM rebuild_lane WHERE rebuild = $1 AND lane BETWEEN $2 AND $3`;

/** Where it was when the page was read; else another replica was faster, or is at it. $1 rebuild, $2 group, $3 applied, $4 position */
export const LOCK_HISTORY = `
  SELECT lane_group FROM rebuild_history
  WHERE rebuild = $1 AND lane_group = $2 AND applied = $3 AND position = $4 AND NOT complete FOR UPDATE SKIP LOCKED`;

/** $1 rebuild, $2 group, $3 applied, $4 position; null: to the end; $5 passed */
export const ADVANCE_HISTORY = `
  UPDATE public.rebuild_history
  SET applied = COALESCE($3, applied), position = COALESCE($4, position), complete = $3::bigint IS NULL, passed = passed + $5
  WHERE rebuild = $1 AND lane_group = $2`;

/** Messages in blocks that have one of the types. $1 types */
export const COUNT_ARCHIVED = `
  SELECT COALESCE(sum(count), 0)::bigint AS total FROM archive_block WHERE types && $1::text[]`;
