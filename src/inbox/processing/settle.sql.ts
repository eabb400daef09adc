import { prepared } from '../../database/prepared.ts';
import { putBackRows, whereStillClaimed } from '../../lanes/lease.ts';

/*
 * The row count of these statements is the second fence: a row that another replica has settled, or claimed at another
 * attempt, is not changed. The caller compares the count; FINISH compares it itself, because COMMIT is sent together with it.
 */

/**
 * inbox.finish — messages of the same attempt, at the ctid that the claim returned. Unless all of them are there, it fails
 * with a division by zero. `applied` is one number per transaction, read after the fence: the first FINISH takes it, the
 * others repeat it. $1 places, $2 positions, $3 attempt, $4 expected count (null: any), $5 whether it is the first
 */
export const FINISH = prepared(`
  WITH done AS (
    UPDATE inbox SET status = 'finished', waits = NULL, error = NULL, settled_at = now(),
           applied = (SELECT CASE WHEN $5 THEN nextval('inbox_applied_seq') ELSE currval('inbox_applied_seq') END)
    WHERE ctid = ANY ($1::tid[]) AND position = ANY ($2::bigint[]) AND attempt = $3 AND status = 'processing'
    RETURNING 1
  )
  SELECT 1 / (count(*) = COALESCE($4::integer, count(*)))::integer FROM done`);

const MARKED = whereStillClaimed('inbox');

/**
 * inbox.end — messages that end as dead, expired or superseded.
 * $1 positions, $2 attempts, $3 statuses, $4 errors, $5 superseded by, $6 whether the attempt counts
 */
export const END_MESSAGES = `
  UPDATE inbox SET status = ended.status, waits = NULL, settled_at = now(), lapsed_at = now(),
         error = COALESCE(ended.error, inbox.error), superseded_by = ended.winner,
         attempt = inbox.attempt - CASE WHEN ended.counted THEN 0 ELSE 1 END
  FROM unnest($1::bigint[], $2::smallint[], $3::text[], $4::text[], $5::bigint[], $6::boolean[])
         AS ended(position, attempt, status, error, winner, counted)
  ${MARKED('ended')}`;

/** inbox.putBack — see `putBackRows`. */
export const PUT_BACK = putBackRows('inbox');

/** inbox.late — which messages have expired, by the clock of the database. $1 positions */
export const FIND_EXPIRED =
  'SELECT position FROM inbox WHERE position = ANY ($1::bigint[]) AND expires_at <= clock_timestamp()';

/**
 * For the query below: on a table without statistics its index would not be used (measured for 50 keys among 300,000
 * rows: 32 ms instead of 2).
 */
export const SLOT_SETTINGS = 'SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off';

/**
 * inbox.lastOfSlots — for each key, the last waiting message among the types of a slot: a burst may be longer than a
 * claim. Only the last hundred rows of a key are read, of whatever type and status: to read all stored rows of a busy key
 * would take seconds. Earlier messages are compared within their claim, and so are messages that expire: they may have
 * expired before they are applied.
 * $1 keys, $2 slots, $3 types of each slot, a JSON array
 */
export const LAST_OF_SLOTS = `
  SELECT wanted.key, wanted.slot, last.position
  FROM unnest($1::text[], $2::text[], $3::jsonb[]) AS wanted(key, slot, types)
  CROSS JOIN LATERAL (
    SELECT tail.position FROM (
      SELECT queued.position, queued.type, queued.settled_at, queued.waits, queued.expires_at, queued.keyless FROM inbox AS queued
      WHERE (queued.key, queued.position) > (wanted.key, 0)
        AND (queued.key, queued.position) < (wanted.key, 9223372036854775807)
      ORDER BY queued.key DESC, queued.position DESC LIMIT 100
    ) AS tail
    WHERE wanted.types ? tail.type AND tail.settled_at IS NULL AND tail.waits IS DISTINCT FROM 'due'
      AND tail.expires_at IS NULL AND NOT tail.keyless
    ORDER BY tail.position DESC LIMIT 1
  ) AS last`;
