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

/**
 * ruling.next — the first lane with something left, and whether its first key is half way: what was revived of it waits for
 * the rest. $1 ruling, $2 its name as the keeper of a hold
 */
export const NEXT_LANE = `
  SELECT next.stage, next.lane, EXISTS (
           SELECT FROM hold
           WHERE hold.queue = next.stage AND hold.lane = next.lane AND hold.key = next.key AND hold.kept_by = $2) AS begun
  FROM (SELECT stage, lane, key FROM ruling_item
        WHERE ruling = $1 AND outcome IS NULL ORDER BY ruling, stage, lane, key, position LIMIT 1) AS next`;

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
 * ruling.apply — to the next items of a locked lane, key by key, each in order. Whoever is no dead letter any more is left
 * alone. Answers with the keys; of the last one some may be left. Items are noted where they were found (ctid): nobody else
 * changes those of a ruling that is taken, and a join with them took 16 s on a table that was never analysed.
 * $1 ruling, $2 lane, $3 most items
 */
export function applyRuling(stage: Stage, kind: RulingKind): string {
  const OWN = `ruling = $1 AND stage = '${stage}' AND lane = $2`;
  return `
    WITH item AS MATERIALIZED (
      SELECT next.place, next.key, next.position, dead.position IS NOT NULL AS dead
      FROM (SELECT ctid AS place, key, position FROM ruling_item
            WHERE ${OWN} AND outcome IS NULL ORDER BY ruling, stage, lane, key, position LIMIT $3) AS next
      LEFT JOIN LATERAL (
        SELECT position FROM ${stage} AS one WHERE one.position = next.position AND one.status = 'dead' LIMIT 1
      ) AS dead ON true
    ),
    changed AS (
      UPDATE ${stage} SET ${CHANGE[stage][kind]}, ruling = $1
      WHERE position = ANY (ARRAY(SELECT position FROM item WHERE dead)) AND status = 'dead'
    ),
    done AS (UPDATE ruling_item SET outcome = 'done' WHERE ctid = ANY (ARRAY(SELECT place FROM item WHERE dead))),
    skipped AS (UPDATE ruling_item SET outcome = 'skipped' WHERE ctid = ANY (ARRAY(SELECT place FROM item WHERE NOT dead)))
    SELECT of_key.key, of_key.changed, EXISTS (
             SELECT FROM ruling_item AS rest
             WHERE ${OWN} AND rest.key = of_key.key AND rest.position > of_key.last AND rest.outcome IS NULL) AS begun
    FROM (SELECT key, count(*) FILTER (WHERE dead)::int AS changed, max(position) AS last
          FROM item GROUP BY key) AS of_key`;
}

/**
 * ruling.keep — a key that is half way waits, whatever held it, until the rest of it is revived, too: what is behind it
 * would come before the rest. $1 queue, $2 lane, $3 key, $4 ruling, $5 note
 */
export const KEEP_HOLD = `
  INSERT INTO hold (queue, lane, key, until, reason, note, kept_by, then_until)
  VALUES ($1, $2, $3, 'infinity', 'operator', $5, $4, clock_timestamp())
  ON CONFLICT (queue, lane, key) DO UPDATE
  SET until = 'infinity', kept_by = EXCLUDED.kept_by,
      then_until = CASE WHEN hold.until = 'infinity' THEN hold.then_until ELSE hold.until END,
      reason = CASE WHEN hold.until > clock_timestamp() THEN hold.reason ELSE 'operator' END`;

/** ruling.letGo — of holds that we kept; that of a dead letter stays its own. $1 queue, $2 lane, $3 keys, $4 ruling */
export const LET_GO = `
  UPDATE hold
  SET kept_by = NULL, then_until = CASE WHEN reason = 'dead-letter' THEN then_until END,
      until = CASE WHEN reason = 'dead-letter' THEN until ELSE COALESCE(then_until, 'infinity') END,
      reason = CASE WHEN reason = 'dead-letter' OR note IS NULL THEN reason ELSE 'operator' END
  WHERE queue = $1 AND lane = $2 AND key = ANY ($3::text[]) AND kept_by = $4`;

/**
 * ruling.free — a dead letter's hold stands for those that died since it was set. It ends when the last of them is dealt
 * with; where an operator holds the key, too (the note), it goes on as theirs. $1 lane, $2 keys
 */
export const FREE = (stage: Stage) => `
  UPDATE hold
  SET until = CASE WHEN hold.note IS NULL THEN clock_timestamp() ELSE COALESCE(hold.then_until, hold.until) END,
      reason = CASE WHEN hold.note IS NULL THEN hold.reason ELSE 'operator' END, then_until = NULL
  WHERE hold.queue = '${stage}' AND hold.lane = $1 AND hold.key = ANY ($2::text[])
    AND hold.reason = 'dead-letter' AND hold.until > clock_timestamp() AND hold.kept_by IS NULL AND NOT EXISTS (
      SELECT FROM ${stage} AS other
      WHERE other.lane = hold.lane AND other.key = hold.key AND other.fingerprint IS NOT NULL
        AND other.lapsed_at >= hold.set_at)`;

/**
 * ruling.due — revived ones stand behind a hold that is due: they are taken before whatever waits behind them, oldest
 * first. $1 queue, $2 lane, $3 keys, $4 note
 */
export const SET_DUE = `
  INSERT INTO hold (queue, lane, key, until, reason, note)
  SELECT $1, $2, key, clock_timestamp(), 'operator', $4 FROM unnest($3::text[]) AS key
  ON CONFLICT (queue, lane, key) DO NOTHING`;

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
