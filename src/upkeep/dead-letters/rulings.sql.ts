import type { Stage } from './dead-letter-filter.ts';
import type { RulingKind } from './ruling.ts';

/** $1 kind, $2 filter, $3 reason, $4 by */
export const INSERT_RULING = `
  INSERT INTO ruling (kind, filter, reason, matched, created_by) VALUES ($1, $2, $3, 0, $4) RETURNING id`;

/** ruling.match — every dead letter of a stage that the filter means now. $1 ruling, then the filter's values */
export function matchDeadLetters(stage: Stage, from: string): string {
  return `
    INSERT INTO ruling_item (ruling, stage, lane, key, position)
    SELECT $1::bigint, '${stage}', ${stage}.lane, ${stage}.key, ${stage}.position ${from}`;
}

/** ruling.add — one. $1 ruling, $2 stage, $3 lane, $4 key, $5 position */
export const ADD_ITEM = `
  INSERT INTO ruling_item (ruling, stage, lane, key, position) VALUES ($1, $2, $3, $4, $5)`;

export const SET_MATCHED = 'UPDATE ruling SET matched = $2 WHERE id = $1';

export const UNDONE = 'SELECT id FROM ruling WHERE done_at IS NULL ORDER BY id';

/** ruling.take — unless another replica works at it. $1 ruling */
export const TAKE_RULING = 'SELECT kind FROM ruling WHERE id = $1 AND done_at IS NULL FOR UPDATE SKIP LOCKED';

/** ruling.inFlight — revived and not settled again, counted up to $2. $1 ruling */
export const IN_FLIGHT = `
  SELECT count(*)::int AS waiting FROM (
    (SELECT FROM inbox WHERE ruling = $1 AND settled_at IS NULL LIMIT $2)
    UNION ALL (SELECT FROM outbox WHERE ruling = $1 AND settled_at IS NULL LIMIT $2)) AS on_its_way`;

/** ruling.next — the first lane with something left. $1 ruling */
export const NEXT_LANE = `
  SELECT stage, lane FROM ruling_item WHERE ruling = $1 AND outcome IS NULL ORDER BY ruling, stage, lane, key LIMIT 1`;

/**
 * ruling.lock — nobody claims, settles or clears holds in the lane until we are done: for that long we stand in for its
 * holder. What it has in its hands is not touched, a dead letter is in nobody's. One lane at a time, so that nobody waits
 * in a circle. $1 queue, $2 lane
 */
export const LOCK_LANE = 'SELECT FROM lane WHERE queue = $1 AND lane = $2 FOR NO KEY UPDATE';

const CHANGE: Record<Stage, Record<RulingKind, string>> = {
  inbox: {
    revive: `status = 'held', waits = 'held', settled_at = NULL, lapsed_at = NULL, attempt = 0`,
    discard: `status = 'discarded', settled_at = now()`,
  },
  outbox: {
    revive: `status = 'held', waits = 'held', settled_at = NULL, lapsed_at = NULL, attempt = 0, answered = NULL, duration_ms = NULL`,
    discard: `status = 'discarded', settled_at = now()`,
  },
};

/**
 * A dead letter's hold stands for those that died since it was set. It ends when the last of them is dealt with; where an
 * operator holds the key, too (the note), it goes on as theirs.
 */
const FREED = (stage: Stage) => `
  hold.reason = 'dead-letter' AND hold.until > clock_timestamp() AND NOT EXISTS (
    SELECT FROM ${stage} AS other
    WHERE other.lane = hold.lane AND other.key = hold.key AND other.fingerprint IS NOT NULL
      AND other.lapsed_at >= hold.set_at AND NOT other.position = ANY (ARRAY(SELECT position FROM changed)))`;
const FREE = `
  until = CASE WHEN hold.note IS NULL THEN clock_timestamp() ELSE hold.until END,
  reason = CASE WHEN hold.note IS NULL THEN hold.reason ELSE 'operator' END`;

/** Revived ones stand behind a hold that is due: they are taken before whatever waits behind them, oldest first. */
const HOLDS = (stage: Stage): Record<RulingKind, string> => ({
  revive: `
    INSERT INTO hold (queue, key, lane, until, reason, note)
    SELECT '${stage}', key, $2, clock_timestamp(), 'operator', 'revived by ruling ' || $1::bigint FROM changed GROUP BY key
    ON CONFLICT (queue, lane, key) DO UPDATE SET ${FREE} WHERE ${FREED(stage)}`,
  discard: `
    UPDATE hold SET ${FREE} FROM (SELECT DISTINCT key FROM changed) AS gone
    WHERE hold.queue = '${stage}' AND hold.lane = $2 AND hold.key = gone.key AND ${FREED(stage)}`,
});

/**
 * ruling.apply — to the next keys of a locked lane, all items of a key together: so they keep their order. Whoever is no
 * dead letter any more is left alone. $1 ruling, $2 lane, $3 most keys
 */
export function applyRuling(stage: Stage, kind: RulingKind): string {
  return `
    WITH chosen AS MATERIALIZED (
      SELECT DISTINCT key FROM ruling_item
      WHERE ruling = $1 AND stage = '${stage}' AND lane = $2 AND outcome IS NULL ORDER BY key LIMIT $3
    ),
    item AS MATERIALIZED (
      SELECT ruling_item.key, ruling_item.position FROM ruling_item JOIN chosen USING (key)
      WHERE ruling_item.ruling = $1 AND ruling_item.stage = '${stage}' AND ruling_item.lane = $2
        AND ruling_item.outcome IS NULL
    ),
    changed AS (
      UPDATE ${stage} SET ${CHANGE[stage][kind]}, ruling = $1
      WHERE position = ANY (ARRAY(SELECT position FROM item)) AND status = 'dead'
      RETURNING position, key
    ),
    freed AS (${HOLDS(stage)[kind]}),
    noted AS (
      UPDATE ruling_item
      SET outcome = CASE WHEN ruling_item.position = ANY (ARRAY(SELECT position FROM changed)) THEN 'done' ELSE 'skipped' END
      FROM item
      WHERE ruling_item.ruling = $1 AND ruling_item.stage = '${stage}' AND ruling_item.lane = $2
        AND ruling_item.key = item.key AND ruling_item.position = item.position
    )
    SELECT count(*)::int AS changed FROM changed`;
}

export const MARK_DONE = 'UPDATE ruling SET done_at = now() WHERE id = $1';

/** ruling.progress — what was removed meanwhile, because its time was over, has ended. $1 ruling */
export const PROGRESS = `
  SELECT ruling.id, ruling.kind, ruling.filter, ruling.reason, ruling.matched, ruling.created_at, ruling.created_by,
         ruling.done_at,
         count(*) FILTER (WHERE item.outcome = 'done')::int AS done,
         count(*) FILTER (WHERE item.outcome = 'skipped')::int AS skipped,
         count(*) FILTER (WHERE item.outcome = 'done'
                            AND COALESCE(inbox.status, outbox.status) IN ('pending', 'processing', 'held'))::int AS waiting,
         count(*) FILTER (WHERE item.outcome = 'done' AND COALESCE(inbox.status, outbox.status) = 'dead')::int AS dead
  FROM ruling
  LEFT JOIN ruling_item AS item ON item.ruling = ruling.id
  LEFT JOIN inbox ON item.stage = 'inbox' AND inbox.position = item.position
  LEFT JOIN outbox ON item.stage = 'outbox' AND outbox.position = item.position
  WHERE ruling.id = $1 GROUP BY ruling.id`;
