import { withinBytes } from '../../http/page-bytes.ts';
import type { Stage as LaneStage } from '../../lanes/lane-metrics.ts';
import type { ActionKind } from './dead-letter-action.ts';
import { SOURCES } from './dead-letter-conditions.ts';
import type { Stage } from './dead-letter-filter.ts';

/** action.insert — $1 kind, $2 filter, $3 reason, $4 by */
export const INSERT_ACTION = `
  INSERT INTO ruling (kind, filter, reason, matched, created_by) VALUES ($1, $2, $3, 0, $4) RETURNING id`;

/** action.match — stores every dead letter of a stage that matches the filter now. $1 action, then the values of the filter */
export function matchDeadLetters(stage: Stage, from: string): string {
  const { rows, key } = SOURCES[stage];
  return `
    INSERT INTO ruling_item (ruling, stage, lane, key, position)
    SELECT $1::bigint, '${stage}', ${rows}.lane, ${key}, ${rows}.position ${from}`;
}

/** action.addItem — a single dead letter. $1 action, $2 stage, $3 lane, $4 key, $5 position */
export const ADD_ITEM = `
  INSERT INTO ruling_item (ruling, stage, lane, key, position) VALUES ($1, $2, $3, $4, $5)`;

export const SET_MATCHED = 'UPDATE ruling SET matched = $2 WHERE id = $1';

export const UNFINISHED = 'SELECT id FROM ruling WHERE done_at IS NULL ORDER BY id';

/** action.lock — unless another replica is at work on it. $1 action */
export const LOCK_ACTION = `
  SELECT kind, created_by AS by FROM ruling WHERE id = $1 AND done_at IS NULL FOR UPDATE SKIP LOCKED`;

/** The first remaining item. $1 action */
const FIRST_REMAINING = (further: string) => `
  SELECT stage, lane, key FROM ruling_item
  WHERE ruling = $1 AND outcome IS NULL ${further} ORDER BY ruling, stage, lane, key, position LIMIT 1`;

/** Revived and not settled yet. Rows that wait for an operator or behind a dead letter do not count: they may wait for weeks. */
const IN_FLIGHT = (stage: LaneStage) => `
  SELECT FROM ${stage} AS revived
  WHERE head.stage = '${stage}' AND revived.ruling = $1 AND revived.settled_at IS NULL
    AND revived.lane >= head.lane & ~255 AND revived.lane <= head.lane | 255
    AND NOT EXISTS (
      SELECT FROM hold WHERE hold.queue = '${stage}' AND hold.lane = revived.lane AND hold.key = revived.key
        AND hold.reason IN ('operator', 'dead-letter') AND hold.until > clock_timestamp())
  LIMIT $2`;

/**
 * action.next — for each queue (the inbox, a listener or a group) the first key with remaining items and the number of items
 * in flight, counted up to $2. A listener that receives nothing at the moment does not block the others. A group has none in
 * flight: its members take what they can. $1 action
 */
export const NEXT_KEYS = `
  WITH RECURSIVE head(stage, lane, key) AS (
    (${FIRST_REMAINING('')})
    UNION ALL
    SELECT next.* FROM head CROSS JOIN LATERAL (
      ${FIRST_REMAINING('AND (stage, lane) > (head.stage, head.lane | 255)')}) AS next
  )
  SELECT head.*, (SELECT count(*)::int FROM ((${IN_FLIGHT('inbox')}) UNION ALL (${IN_FLIGHT('outbox')})) AS one) AS "inFlight"
  FROM head`;

/** As if it had just arrived: retention does not give it up for its age, and its listener's max age starts over. */
const REVIVED = `status = 'held', waits = 'held', waits_since = clock_timestamp(), settled_at = NULL, lapsed_at = NULL, attempt = 0`;

const CHANGE: Record<LaneStage, Record<ActionKind, string>> = {
  inbox: {
    revive: REVIVED,
    discard: `status = 'discarded', settled_at = now()`,
  },
  outbox: {
    revive: `${REVIVED}, answered = NULL, duration_ms = NULL, excerpt = NULL`,
    discard: `status = 'discarded', settled_at = now()`,
  },
};

/**
 * action.apply — changes the next items of a locked lane, key by key, each key in order. Items that are no longer dead
 * letters are skipped. Returns the keys; the last one may have items left. Items are updated by ctid: no other transaction
 * changes the items of a locked action, and a join with them took 16 s on a table that was never analysed.
 * $1 action, $2 lane, $3 max items
 */
export function applyAction(stage: LaneStage, kind: ActionKind): string {
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
             WHERE ${OWN} AND rest.key = of_key.key AND rest.position > of_key.last AND rest.outcome IS NULL) AS partial
    FROM (SELECT key, count(*) FILTER (WHERE dead)::int AS changed, max(position) AS last
          FROM item GROUP BY key) AS of_key`;
}

/** action.progressed — $1 action */
export const MARK_PROGRESS = 'UPDATE ruling SET progressed_at = clock_timestamp() WHERE id = $1';

export const MARK_DONE = 'UPDATE ruling SET done_at = now() WHERE id = $1';

/** action.nextOfGroup — the next items of a group, key by key, each key in order. $1 action, $2 lane, $3 max items */
export const NEXT_OF_GROUP = `
  SELECT position FROM ruling_item
  WHERE ruling = $1 AND stage = 'group' AND lane = $2 AND outcome IS NULL ORDER BY ruling, stage, lane, key, position LIMIT $3`;

/** action.settleOfGroup — $1 action, $2 lane, $3 positions, $4 those of them that were changed */
export const SETTLE_OF_GROUP = `
  UPDATE ruling_item SET outcome = CASE WHEN position = ANY ($4::bigint[]) THEN 'done' ELSE 'skipped' END
  WHERE ruling = $1 AND stage = 'group' AND lane = $2 AND position = ANY ($3::bigint[])`;

/** A revived message that its group has not committed yet. */
const WAITS_IN_GROUP = `EXISTS (
  SELECT FROM group_cursor AS cursor JOIN topic_entry AS entry ON entry.topic = cursor.topic AND entry.partition = cursor.partition
  WHERE cursor.group_number = rejection.group_number AND cursor.topic = rejection.revived_topic AND cursor.partition = 0
    AND entry."offset" = rejection.revived_offset AND entry."offset" > cursor.committed
    AND entry."offset" >= cursor.start AND entry."offset" <= COALESCE(cursor.bound, entry."offset"))`;

/** A revived message that its group rejected again. */
const DEAD_IN_GROUP = `EXISTS (
  SELECT FROM rejection AS again
  WHERE again.group_number = rejection.group_number AND again.topic = rejection.revived_topic AND again.partition = 0
    AND again."offset" = rejection.revived_offset)`;

const PROGRESS_OF = (which: string) => `
  SELECT ruling.id, ruling.kind, ruling.filter, ruling.reason, ruling.matched, ruling.created_at, ruling.created_by,
         ruling.done_at, ruling.cancelled_at, ruling.cancelled_by,
         count(*) FILTER (WHERE item.outcome = 'done')::int AS done,
         count(*) FILTER (WHERE item.outcome = 'skipped')::int AS skipped,
         count(*) FILTER (WHERE item.outcome = 'done' AND (
           COALESCE(inbox.status, outbox.status) IN ('pending', 'processing', 'held') OR ${WAITS_IN_GROUP}))::int AS waiting,
         count(*) FILTER (WHERE item.outcome = 'done' AND (
           COALESCE(inbox.status, outbox.status) = 'dead' OR ${DEAD_IN_GROUP}))::int AS dead
  FROM (SELECT * FROM ruling WHERE ${which}) AS ruling
  LEFT JOIN ruling_item AS item ON item.ruling = ruling.id
  LEFT JOIN inbox ON item.stage = 'inbox' AND inbox.position = item.position
  LEFT JOIN outbox ON item.stage = 'outbox' AND outbox.position = item.position
  LEFT JOIN rejection ON item.stage = 'group' AND rejection.position = item.position
  GROUP BY ruling.id, ruling.kind, ruling.filter, ruling.reason, ruling.matched, ruling.created_at, ruling.created_by,
           ruling.done_at, ruling.cancelled_at, ruling.cancelled_by`;

/** action.progress — items removed by retention in the meantime count as ended. $1 action */
export const PROGRESS = PROGRESS_OF('id = $1');

/**
 * action.list — by filter, newest first; a single dead letter that was revived or discarded is only in the audit log.
 * $1 max, $2 before this id or null
 */
export const LIST = `${withinBytes(
  PROGRESS_OF(
    `id IN (SELECT id FROM ruling WHERE ($2::bigint IS NULL OR id < $2) AND NOT filter ? 'id' ORDER BY id DESC LIMIT $1)`,
  ),
  'id DESC',
)} ORDER BY id DESC`;

/** action.lockUnfinished — waits for the step in progress. $1 action */
export const LOCK_UNFINISHED = 'SELECT kind FROM ruling WHERE id = $1 AND done_at IS NULL FOR UPDATE';

/**
 * action.skipRest — what was not begun. A key of which some dead letters were revived is completed: what came after them
 * waits for that. $1 action
 */
export const SKIP_REST = `
  UPDATE ruling_item AS item SET outcome = 'skipped'
  WHERE item.ruling = $1 AND item.outcome IS NULL AND NOT EXISTS (
    SELECT FROM ruling_item AS begun
    WHERE begun.ruling = $1 AND begun.stage = item.stage AND begun.lane = item.lane AND begun.key = item.key
      AND begun.outcome = 'done')`;

/** action.cancelled — $1 action, $2 by */
export const MARK_CANCELLED =
  'UPDATE ruling SET cancelled_at = now(), cancelled_by = $2, progressed_at = clock_timestamp() WHERE id = $1';
