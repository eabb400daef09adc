import { FORCE_INDEX_PLANS_ASYNC_COMMIT } from '../database/force-index-plans.ts';
import { prepared } from '../database/prepared.ts';

/**
 * The statements of a lane queue. Rows of the queue live in `table`, found by (lane, position).
 *
 * Lane probes are written as row comparisons, `(lane, position) > (…) AND (lane, position) <= (…)`: then the
 * planner has one sensible plan, on an empty or never-analysed table too. Written as `lane = … ORDER BY position
 * LIMIT 1` a lease once took 46 s (all rows in one lane, after ANALYZE). The end is the last position of the lane and
 * not the beginning of the next: before PostgreSQL 18 a scan stops only at a row whose first column is beyond the
 * end, so a look at an empty lane would read all of the next one. Every LATERAL has a LIMIT: without one the planner
 * makes a join of it, and on a table it takes for small reads all of it for each row.
 */
export interface QueueTable {
  readonly table: string;
  /** What a claim returns of a row, besides its lane and position. */
  readonly columns: string;
  /** A statement over `lost(position, attempt)`: what a crashed holder had in its hands. */
  readonly onTakeOver?: string;
}

/**
 * For the statements below, in one transaction with them. The claim is not made durable by itself: a lost claim is a claim
 * that never was, and the token it left in memory then proves nothing. Nor is the release: a lost one is a lease that ends.
 */
export const QUEUE_SETTINGS = FORCE_INDEX_PLANS_ASYNC_COMMIT;

/** No position is greater. */
const LAST = '9223372036854775807';

/**
 * Due holds of a lane that one claim looks at. They are taken in the order they became due; `statement_timestamp`,
 * not `clock_timestamp`: a volatile time is no index condition, and every look would step over all holds that are
 * not due yet.
 */
const MAX_DUE_HOLDS = 64;

/**
 * Marks are looked for this deep in a lane and its holds: as deep as the largest claim that a setting allows. What lies
 * deeper is not charged twice when it is claimed.
 */
const MAX_MARKED = 2_000;
const MAX_MARKED_HOLDS = 5_000;

/**
 * lane.lease — free lanes that have work (a ready row, a due hold, or a lease that ran out), in lane order from $2 on,
 * or among the hinted ones ($3). SKIP LOCKED: a lane whose holder is in a transaction right now is not free.
 * Two statements: one for both would have to be planned for each use, or read all lanes for a hint.
 * $1 queue, $2 first lane, $3 hint or null, $4 most lanes, $5 token, $6 lease in ms, $7 replica,
 * $8 crashes from which on a lane is suspect, $9 whether suspect lanes are wanted or the others; null: all
 */
export function leaseLanes({ table }: QueueTable, which: 'all' | 'hinted'): string {
  const candidates = which === 'all' ? '$3::integer[] IS NULL' : 'lane.lane = ANY ($3::integer[])';
  return prepared(`
    WITH free AS (
      SELECT lane.lane
      FROM lane
      CROSS JOIN LATERAL (
        SELECT FROM (
          (SELECT FROM ${table} AS head
           WHERE (head.lane, head.position) > (lane.lane, 0) AND (head.lane, head.position) <= (lane.lane, ${LAST})
             AND head.settled_at IS NULL AND head.waits IS NULL
           ORDER BY head.lane, head.position LIMIT 1)
          UNION ALL
          (SELECT FROM hold
           WHERE hold.queue = lane.queue AND hold.lane = lane.lane AND hold.until <= statement_timestamp()
           ORDER BY hold.queue, hold.lane, hold.until LIMIT 1)
          UNION ALL
          (SELECT WHERE lane.leased_until > '-infinity')
        ) AS anything LIMIT 1
      ) AS work
      WHERE lane.queue = $1 AND lane.lane >= $2 AND ${candidates}
        AND lane.leased_until <= clock_timestamp()
        AND ($9::boolean IS NULL
             OR (lane.crashes + CASE WHEN lane.leased_until > '-infinity' THEN 1 ELSE 0 END >= $8) = $9)
      ORDER BY lane.queue, lane.lane
      LIMIT $4
      FOR UPDATE OF lane SKIP LOCKED
    )
    UPDATE lane SET epoch = epoch + 1, token = $5, replica = $7,
           leased_until = clock_timestamp() + $6 * interval '1 millisecond',
           crashes = LEAST(crashes + CASE WHEN leased_until > '-infinity' THEN 1 ELSE 0 END, 1000)
    WHERE queue = $1 AND lane = ANY (ARRAY(SELECT lane FROM free))
    RETURNING lane, crashes`);
}

/**
 * lane.takeOver — after a crash: what its previous holder had in flight waits again where it was, uncharged; only a
 * message that was alone in a careful holder's hands keeps the charge. Answers with the positions.
 * $1 queue, $2 token, $3 crashes from which on the charge stays, $4 lanes or null
 */
export function takeOver({ table, onTakeOver = 'SELECT position FROM lost' }: QueueTable): string {
  return `${unmark(table, 'AND lane.crashes > 0')} ${onTakeOver}`;
}

/** lane.giveBack — the same by the holder itself, for what it does not get to. $3 as above */
export function giveBackRows({ table }: QueueTable): string {
  return `${unmark(table, '')} SELECT position FROM lost`;
}

/**
 * The marked rows are looked for where a claim takes them from, at the heads of the ready and of the held rows: over
 * both together there is no index, and everything that ever ended would be read (measured: 0.1–5 s per lease).
 */
function unmark(table: string, which: string): string {
  return `
    WITH mine AS MATERIALIZED (
      SELECT lane.lane, lane.crashes FROM lane
      WHERE lane.queue = $1 AND lane.token = $2 AND ($4::integer[] IS NULL OR lane.lane = ANY ($4)) ${which}
      FOR NO KEY UPDATE
    ),
    marked AS MATERIALIZED (
      SELECT head.position
      FROM mine
      CROSS JOIN LATERAL (
        SELECT queued.position, queued.status FROM ${table} AS queued
        WHERE (queued.lane, queued.position) > (mine.lane, 0) AND (queued.lane, queued.position) <= (mine.lane, ${LAST})
          AND queued.settled_at IS NULL AND queued.waits IS NULL
        ORDER BY queued.lane, queued.position LIMIT ${MAX_MARKED}
      ) AS head
      WHERE head.status = 'processing'
      UNION ALL
      SELECT late.position
      FROM mine
      CROSS JOIN LATERAL (
        SELECT hold.key FROM hold WHERE hold.queue = $1 AND hold.lane = mine.lane AND hold.until >= '-infinity'
        ORDER BY hold.queue, hold.lane, hold.until LIMIT ${MAX_MARKED_HOLDS}
      ) AS hold
      CROSS JOIN LATERAL (
        SELECT queued.position, queued.status FROM ${table} AS queued
        WHERE queued.lane = mine.lane AND queued.key = hold.key AND queued.settled_at IS NULL AND queued.waits = 'held'
        ORDER BY queued.lane, queued.key, queued.position LIMIT ${MAX_MARKED}
      ) AS late
      WHERE late.status = 'processing'
    ),
    charged AS MATERIALIZED (SELECT lane FROM mine WHERE crashes >= $3),
    lost AS (
      UPDATE ${table}
      SET status = CASE WHEN waits = 'held' THEN 'held' ELSE 'pending' END,
          attempt = attempt - CASE WHEN lane = ANY (ARRAY(SELECT lane FROM charged)) THEN 0 ELSE 1 END
      WHERE position = ANY (ARRAY(SELECT position FROM marked))
      RETURNING position, attempt + CASE WHEN lane = ANY (ARRAY(SELECT lane FROM charged)) THEN 0 ELSE 1 END AS attempt
    )`;
}

/**
 * lane.claim — the oldest rows of the lanes we hold, among those that are ready and those held back by a hold that is
 * due. A second statement after the lease on purpose: it needs a snapshot taken when nobody else can change these rows
 * any more. Ready rows of a held key are parked, so that however many there are, no claim meets them twice; a held row
 * waits while a ready one of its key stands before it (that one is parked now, and both are taken next time).
 * A row that is marked already was left behind by a crash: it was charged then.
 * Rows are marked where they were found (ctid): only the holder of a lane changes its rows, so they are still there.
 * Answers with at least one row, whose position is null when nothing was claimed, and how many were parked.
 * $1 queue, $2 tokens, $3 lanes, $4 most rows per lane, $5 how many ready ones of a lane are looked at, $6 most rows
 */
export function claimRows({ table, columns }: QueueTable): string {
  return prepared(`
    WITH mine AS MATERIALIZED (
      SELECT lane.lane FROM lane
      WHERE lane.queue = $1 AND lane.lane = ANY ($3::integer[]) AND lane.token = ANY ($2::uuid[])
      ORDER BY lane.lane FOR NO KEY UPDATE
    ),
    ready AS MATERIALIZED (
      SELECT mine.lane, head.place, head.position, head.key, hold.key IS NOT NULL AS held
      FROM mine
      CROSS JOIN LATERAL (
        SELECT queued.ctid AS place, queued.position, queued.key FROM ${table} AS queued
        WHERE (queued.lane, queued.position) > (mine.lane, 0) AND (queued.lane, queued.position) <= (mine.lane, ${LAST})
          AND queued.settled_at IS NULL AND queued.waits IS NULL
        ORDER BY queued.lane, queued.position LIMIT $5
      ) AS head
      LEFT JOIN LATERAL (
        SELECT next.queue, next.lane, next.key FROM hold AS next
        WHERE (next.queue, next.lane, next.key) >= ($1, mine.lane, head.key)
        ORDER BY next.queue, next.lane, next.key LIMIT 1
      ) AS hold ON hold.queue = $1 AND hold.lane = mine.lane AND hold.key = head.key
    ),
    first_ready AS MATERIALIZED (
      SELECT lane, key, min(position) AS position FROM ready WHERE held GROUP BY lane, key
    ),
    due AS MATERIALIZED (
      SELECT mine.lane, late.place, late.position
      FROM mine
      CROSS JOIN LATERAL (
        SELECT hold.key FROM hold
        WHERE hold.queue = $1 AND hold.lane = mine.lane AND hold.until <= statement_timestamp()
        ORDER BY hold.queue, hold.lane, hold.until LIMIT ${MAX_DUE_HOLDS}
      ) AS hold
      CROSS JOIN LATERAL (
        SELECT queued.ctid AS place, queued.position FROM ${table} AS queued
        WHERE queued.lane = mine.lane AND queued.key = hold.key AND queued.settled_at IS NULL AND queued.waits = 'held'
        ORDER BY queued.lane, queued.key, queued.position LIMIT $4
      ) AS late
      WHERE NOT EXISTS (
        SELECT FROM first_ready
        WHERE first_ready.lane = mine.lane AND first_ready.key = hold.key AND first_ready.position < late.position)
    ),
    chosen AS MATERIALIZED (
      SELECT place FROM (
        SELECT place, row_number() OVER (PARTITION BY lane ORDER BY position) AS turn
        FROM (SELECT lane, place, position FROM ready WHERE NOT held UNION ALL SELECT lane, place, position FROM due) AS able
      ) AS in_turn
      WHERE turn <= $4 ORDER BY turn LIMIT $6
    ),
    parked AS (
      UPDATE ${table} SET status = 'held', waits = 'held',
             attempt = attempt - CASE WHEN status = 'processing' THEN 1 ELSE 0 END
      WHERE ctid = ANY (ARRAY(SELECT place FROM ready WHERE held))
      RETURNING position
    ),
    claimed AS (
      UPDATE ${table} SET status = 'processing', attempt = attempt + CASE WHEN status = 'processing' THEN 0 ELSE 1 END
      WHERE ctid = ANY (ARRAY(SELECT place FROM chosen))
      RETURNING position, lane, ctid AS place, ${columns}
    )
    SELECT (SELECT count(*) FROM parked) AS parked, claimed.* FROM (SELECT) AS always LEFT JOIN claimed ON true`);
}

/**
 * lane.clearHolds — holds that are due and have nothing left behind them. Only the lane's holder does this, after its
 * claim: what the claim parked is seen here. An operator may prolong one meanwhile: the time is looked at once more.
 * Written as NOT EXISTS it became a join that read all parked rows with every claim (500,000 of them: 9.4 s); and
 * PostgreSQL 15 has no index scan for a list of lanes and a list of keys, hence the ctid.
 * $1 queue, $2 tokens, $3 lanes
 */
export function clearHolds({ table }: QueueTable): string {
  return prepared(`
    WITH done AS MATERIALIZED (
      SELECT due.ctid
      FROM lane
      CROSS JOIN LATERAL (
        SELECT hold.ctid, hold.lane, hold.key FROM hold
        WHERE hold.queue = $1 AND hold.lane = lane.lane AND hold.until <= statement_timestamp()
        ORDER BY hold.queue, hold.lane, hold.until LIMIT ${MAX_DUE_HOLDS}
      ) AS due
      LEFT JOIN LATERAL (
        SELECT queued.position FROM ${table} AS queued
        WHERE queued.lane = due.lane AND queued.key = due.key AND queued.settled_at IS NULL AND queued.waits = 'held'
        ORDER BY queued.lane, queued.key, queued.position LIMIT 1
      ) AS behind ON true
      WHERE lane.queue = $1 AND lane.lane = ANY ($3::integer[]) AND lane.token = ANY ($2::uuid[]) AND behind.position IS NULL
    )
    DELETE FROM hold WHERE ctid = ANY (ARRAY(SELECT ctid FROM done)) AND until <= clock_timestamp()`);
}

/** lane.blame — what happened in these lanes counts as a crash. $1 queue, $2 token, $3 lanes or null */
export const COUNT_CRASH = `
  UPDATE lane SET crashes = LEAST(crashes + 1, 1000)
  WHERE queue = $1 AND token = $2 AND ($3::integer[] IS NULL OR lane = ANY ($3))`;

/** lane.leave — gives lanes back, their crashes stay known. $1 queue, $2 token, $3 lanes or null */
export const FREE_LANES = `
  UPDATE lane SET leased_until = '-infinity', token = NULL
  WHERE queue = $1 AND token = $2 AND ($3::integer[] IS NULL OR lane = ANY ($3))`;

/** An operator's hold that would have ended before this one, which has no end: it is still theirs when this one is over. */
const OUTLASTED = `hold.reason = 'operator' AND hold.until > clock_timestamp() AND hold.until < EXCLUDED.until
      AND EXCLUDED.until = 'infinity'`;

/**
 * hold.set — a key waits until a time; the longer of two holds wins and gives the reason, of two without end the later:
 * a dead letter is not let go with an operator's hold that was there before, and the note of that one stays with it.
 * $1 queue, then arrays: keys, lanes, ms from now (null: without end), reasons
 */
export const SET_HOLDS = `
  INSERT INTO hold (queue, key, lane, until, reason)
  SELECT $1, wanted.key, wanted.lane,
         COALESCE(clock_timestamp() + wanted.ms * interval '1 millisecond', 'infinity'), wanted.reason
  FROM unnest($2::text[], $3::integer[], $4::bigint[], $5::text[]) AS wanted(key, lane, ms, reason)
  ON CONFLICT (queue, lane, key) DO UPDATE
  SET until = GREATEST(hold.until, EXCLUDED.until),
      then_until = CASE WHEN ${OUTLASTED} THEN hold.until ELSE hold.then_until END,
      reason = CASE WHEN hold.until > EXCLUDED.until THEN hold.reason ELSE EXCLUDED.reason END,
      note = CASE WHEN hold.until >= EXCLUDED.until OR ${OUTLASTED} THEN hold.note END,
      set_at = CASE WHEN hold.until > EXCLUDED.until THEN hold.set_at ELSE now() END`;
