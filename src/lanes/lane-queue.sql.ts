import { FORCE_INDEX_PLANS_ASYNC_COMMIT } from '../database/force-index-plans.ts';
import { prepared } from '../database/prepared.ts';

/**
 * The statements of a lane queue. Rows of the queue live in `table`, found by (lane, position).
 *
 * Lane probes are written as row comparisons, `(lane, position) > (…) AND (lane, position) <= (…)`: then the
 * planner has one sensible plan, on an empty or never-analysed table too. Written as `lane = … ORDER BY position
 * LIMIT 1` a lease once took 46 s (all rows in one lane, after ANALYZE). The end is the last position of the lane and
 * not the start of the next: before PostgreSQL 18 a scan stops only at a row whose first column is beyond the
 * end, so a probe of an empty lane would read all of the next one. Every LATERAL has a LIMIT: without one the planner
 * turns it into a join, and on a table that it estimates as small the join reads the whole table for each row.
 */
export interface QueueTable {
  readonly table: string;
  /** The columns that a claim returns besides lane, position and place. */
  readonly columns: string;
  /** A statement over `lost(position, attempt)`, the rows that a crashed owner had claimed. */
  readonly onTakeOver?: string;
}

/**
 * For the statements below, in one transaction with them. The COMMIT of a claim does not wait for the disk: after a crash of
 * the server, a claim that was lost never happened, and the token that a replica still has in memory matches no lane. The
 * same goes for a release: if it is lost, the lease expires.
 */
export const QUEUE_SETTINGS = FORCE_INDEX_PLANS_ASYNC_COMMIT;

export function queueStatements(table: QueueTable) {
  return {
    lease: leaseLanes(table, 'all'),
    leaseHinted: leaseLanes(table, 'hinted'),
    takeOver: takeOver(table),
    giveBack: giveBackRows(table),
    claim: claimRows(table),
    clear: clearHolds(table),
  };
}

/** The greatest possible position. */
const LAST = '9223372036854775807';

/**
 * Due holds of a lane that one claim reads, in the order they became due. The statements compare with
 * `statement_timestamp`, not `clock_timestamp`: a volatile function is no index condition, and every scan would step over
 * all holds that are not due yet.
 */
const MAX_DUE_HOLDS = 64;

/**
 * How many rows from the head of a lane, and of each held key, are searched for marks: as many as the largest claim that a
 * setting allows. A marked row further back keeps its mark, and its attempt is not counted twice when it is claimed.
 */
const MAX_MARKED = 2_000;
const MAX_MARKED_HOLDS = 5_000;

/**
 * lane.lease — free lanes that have work (a ready row, a due hold, or an expired lease), in lane order from $2 on,
 * or among the hinted ones ($3). SKIP LOCKED: a lane whose owner is in a transaction right now is not free.
 * Two statements: a single one would have to be planned for each execution, or read all lanes for a hint.
 * $1 queue, $2 first lane, $3 hint or null, $4 max lanes, $5 token, $6 lease in ms, $7 replica,
 * $8 crashes from which on a lane is suspect, $9 true: only suspect lanes, false: only the others, null: all
 */
function leaseLanes({ table }: QueueTable, which: 'all' | 'hinted'): string {
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
 * lane.takeOver — after a crash: the rows that the previous owner had claimed become ready or held again. It counts as an
 * attempt only of a message that was claimed alone, in a lane that was suspect already. Returns the positions.
 * $1 queue, $2 token, $3 crashes from which on it counts as an attempt, $4 lanes or null
 */
export function takeOver({ table, onTakeOver = 'SELECT position FROM lost' }: QueueTable): string {
  return `${unmark(table, 'AND lane.crashes > 0')} ${onTakeOver}`;
}

/** lane.giveBack — the same by the owner itself, for rows that it claimed and does not process. $1 to $4 as above */
function giveBackRows({ table }: QueueTable): string {
  return `${unmark(table, '')} SELECT position FROM lost`;
}

/**
 * The marked rows are searched where a claim takes them from, at the heads of the ready and of the held rows: there is no
 * index over both together, and every settled row would be read (measured: 0.1–5 s per lease).
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
    counted AS MATERIALIZED (SELECT lane FROM mine WHERE crashes >= $3),
    lost AS (
      UPDATE ${table}
      SET status = CASE WHEN waits = 'held' THEN 'held' ELSE 'pending' END,
          attempt = attempt - CASE WHEN lane = ANY (ARRAY(SELECT lane FROM counted)) THEN 0 ELSE 1 END
      WHERE position = ANY (ARRAY(SELECT position FROM marked))
      RETURNING position, attempt + CASE WHEN lane = ANY (ARRAY(SELECT lane FROM counted)) THEN 0 ELSE 1 END AS attempt
    )`;
}

/**
 * lane.claim — the oldest rows of the lanes that this replica owns, among the ready rows and the rows behind a hold that
 * is due. A second statement after the lease on purpose: it needs a snapshot taken when no other replica can change these
 * rows any longer. Ready rows of a held key are parked, so that no claim reads them twice, however many there are; a held
 * row waits while a ready row of its key has a lower position (the ready one is parked now, and the next claim gets both).
 * A row that is marked already was left behind by a crash: its attempt was counted then.
 * Rows are marked where they were found (ctid): only the owner of a lane changes its rows, so they are still there.
 * Returns at least one row, whose position is null when nothing was claimed, and how many rows were parked.
 * $1 queue, $2 tokens, $3 lanes, $4 max rows per lane, $5 how many ready rows of a lane are read, $6 max rows
 */
function claimRows({ table, columns }: QueueTable): string {
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
        SELECT place, row_number() OVER (PARTITION BY lane ORDER BY position) AS nth
        FROM (SELECT lane, place, position FROM ready WHERE NOT held UNION ALL SELECT lane, place, position FROM due) AS able
      ) AS numbered
      WHERE nth <= $4 ORDER BY nth LIMIT $6
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
 * lane.clearHolds — deletes holds that are due and have no held rows left. Only the lane's owner does this, after its
 * claim, so that it sees the rows which the claim parked. An operator may prolong a hold at the same time, so its time is
 * compared once more by the DELETE. Written as NOT EXISTS it became a join that read all parked rows with every claim
 * (500,000 of them: 9.4 s); and PostgreSQL 15 has no index scan for a list of lanes and a list of keys, hence the ctid.
 * $1 queue, $2 tokens, $3 lanes
 */
function clearHolds({ table }: QueueTable): string {
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

/** lane.countCrash — the lanes' last owner is counted as crashed. $1 queue, $2 token, $3 lanes or null */
const COUNT_CRASH = `
  UPDATE lane SET crashes = LEAST(crashes + 1, 1000)
  WHERE queue = $1 AND token = $2 AND ($3::integer[] IS NULL OR lane = ANY ($3))`;

/** lane.free — ends the leases but keeps the count of crashes. $1 queue, $2 token, $3 lanes or null */
export const FREE_LANES = `
  UPDATE lane SET leased_until = '-infinity', token = NULL
  WHERE queue = $1 AND token = $2 AND ($3::integer[] IS NULL OR lane = ANY ($3))`;

/** For lanes that are given back. */
export const FREE_STATEMENTS = { settings: QUEUE_SETTINGS, countCrash: COUNT_CRASH, free: FREE_LANES };

/** An operator's hold would end, and the new one has no end: when the new one is removed, the operator's hold continues. */
const OUTLASTED = `hold.reason = 'operator' AND hold.until > clock_timestamp() AND hold.until < EXCLUDED.until
      AND EXCLUDED.until = 'infinity'`;

/**
 * hold.set — a key waits until a time. The longer of two holds wins and gives the reason; of two indefinite ones, the later
 * one: when an operator removes a hold set before the dead letter, the dead letter still holds its key. The note of the
 * operator's hold is kept.
 * $1 queue, then arrays: keys, lanes, ms from now (null: indefinitely), reasons
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
