import { withinBytes } from '../../http/page-bytes.ts';
import { ATTEMPTS_OF } from '../../outbox/fan-out/delivery-view.ts';
import { SOURCES } from './dead-letter-conditions.ts';
import type { Stage } from './dead-letter-filter.ts';
import { MAX_WAITING } from './dead-letters.openapi.ts';

const NONE = `NULL::text AS "group", NULL::json AS origin`;
const OF_STAGE = {
  inbox: `'inbox' AS stage, inbox.id, NULL::text AS listener, ${NONE}`,
  outbox: `'outbox' AS stage, outbox.id::text AS id, listener.name AS listener, ${NONE}`,
  group: `'group' AS stage, rejected.id::text AS id, NULL::text AS listener, consumer_group.name AS "group",
    json_build_object('topic', (SELECT name FROM topic WHERE topic.number = rejected.topic),
                      'partition', rejected.partition, 'offset', rejected."offset") AS origin`,
} as const;

const SHOWN = (stage: Stage) => {
  const { rows, key } = SOURCES[stage];
  return `
  ${OF_STAGE[stage]}, ${rows}.position, ${rows}.lane, ${key} AS order_key, ${rows}.status, ${rows}.attempt,
  ${rows}.error, ${rows}.fingerprint, ${rows}.lapsed_at, inbox.id AS message, inbox.source, inbox.type, inbox.key,
  inbox.occurred_at, inbox.received_at,
  (extract(epoch FROM ${rows}.lapsed_at) * 1000000)::bigint AS micros`;
};

/** The lanes of all stages have the same numbers, so only rows of the dead letter's own stage count. Nothing waits in a group. */
const BEHIND = (table: 'inbox' | 'outbox') => `
  SELECT FROM ${table} AS behind
  WHERE page.stage = '${table}' AND behind.lane = page.lane AND behind.key = page.order_key AND behind.settled_at IS NULL AND behind.waits = 'held'
  LIMIT ${MAX_WAITING}`;

const WAITING = `(SELECT count(*)::int FROM ((${BEHIND('inbox')}) UNION ALL (${BEHIND('outbox')})) AS those)`;

/**
 * deadLetters.list — newest first, each with the number of rows waiting behind it, counted up to MAX_WAITING.
 * `parts` are FROM and WHERE per stage, $1 limit, $2 micros, $3 stage, $4 position of the last row of the previous page
 */
export function listDeadLetters(parts: readonly { stage: Stage; from: string }[]): string {
  const selects = parts.map(({ stage, from }) => {
    const { rows } = SOURCES[stage];
    return `
      (SELECT ${SHOWN(stage)} ${from}
         AND ($2::bigint IS NULL
              OR (${rows}.lapsed_at, '${stage}'::text, ${rows}.position)
                 < (timestamptz 'epoch' + $2::bigint * interval '1 microsecond', $3::text, $4::bigint))
       ORDER BY ${rows}.lapsed_at DESC, ${rows}.position DESC LIMIT $1)`;
  });
  const order = 'lapsed_at DESC, stage DESC, position DESC';
  const page = `SELECT * FROM (${selects.join(' UNION ALL ')}) AS all_stages ORDER BY ${order} LIMIT $1`;
  return `
    SELECT page.*, ${WAITING} AS waiting
    FROM (${withinBytes(page, order)}) AS page
    ORDER BY ${order}`;
}

/**
 * deadLetters.groups — by stage, listener or group, and fingerprint; the largest first, as many as fit into a page.
 * $1 max groups
 */
export function groupDeadLetters(parts: readonly { stage: Stage; from: string }[]): string {
  const selects = parts.map(({ stage, from }) => `SELECT ${SHOWN(stage)} ${from}`);
  const order = 'count DESC, stage, listener, "group", fingerprint';
  const page = `
    SELECT stage, listener, "group", fingerprint, count(*)::int AS count, min(lapsed_at) AS first, max(lapsed_at) AS last,
           min(json_build_object('id', id, 'type', type, 'key', key, 'error', error)::text) FILTER (WHERE nth = 1)::json AS example
    FROM (
      SELECT *, row_number() OVER (PARTITION BY stage, listener, "group", fingerprint ORDER BY lapsed_at DESC) AS nth
      FROM (${selects.join(' UNION ALL ')}) AS dead
    ) AS dead
    GROUP BY stage, listener, "group", fingerprint ORDER BY ${order} LIMIT $1`;
  return `
    SELECT stage, listener, "group", fingerprint, count, first, last, example
    FROM (${withinBytes(page, order)}) AS page WHERE fits ORDER BY ${order}`;
}

/** deadLetters.count — of one stage. */
export function countDeadLetters(from: string): string {
  return `SELECT count(*)::int AS count ${from}`;
}

/**
 * deadLetters.find — everything with this id that is or was a dead letter: a message by its id, a delivery or a rejection by
 * its own. Several sources may have used the id: the payload is only there if one is a dead letter now, which is returned.
 * $1 id, $2 the id if it is a uuid, $3 stage or null, $4 source or null
 */
export const FIND = `
  SELECT page.*, ${WAITING} AS waiting,
         CASE WHEN dead = 1 THEN (
           SELECT payload::text FROM inbox WHERE inbox.id = page.message AND inbox.source = page.source
         ) END AS payload
  FROM (
    SELECT *, count(*) FILTER (WHERE status = 'dead') OVER () AS dead
    FROM (
      SELECT ${SHOWN('inbox')}, inbox.headers, '[]'::json AS attempts, 0 AS attempts_total FROM inbox
      WHERE inbox.id = $1 AND (inbox.status IN ('dead', 'discarded') OR inbox.ruling IS NOT NULL)
        AND ($3::text IS NULL OR $3 = 'inbox') AND ($4::text IS NULL OR inbox.source = $4)
      UNION ALL
      SELECT ${SHOWN('outbox')}, inbox.headers,
             ${ATTEMPTS_OF('outbox.position')}
      ${SOURCES.outbox.from}
      WHERE outbox.id = $2::uuid AND (outbox.lapsed_at IS NOT NULL OR outbox.ruling IS NOT NULL)
        AND ($3::text IS NULL OR $3 = 'outbox') AND ($4::text IS NULL OR inbox.source = $4)
      UNION ALL
      SELECT ${SHOWN('group')}, inbox.headers, '[]'::json, 0
      ${SOURCES.group.from}
      WHERE rejected.id = $2::uuid AND ($3::text IS NULL OR $3 = 'group') AND ($4::text IS NULL OR inbox.source = $4)
    ) AS found
    LIMIT 20
  ) AS page`;

/** A deleted listener may have dead letters, too. */
export const EXISTS = {
  listener: 'SELECT FROM listener WHERE name = $1',
  group: 'SELECT FROM consumer_group WHERE name = $1',
} as const;
