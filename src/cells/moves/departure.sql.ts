import type { Content } from './parcels.ts';

/** Alerts belong to the cell in which they are raised; their slots do not matter. */
const ALERTS = `'urn:sluice:alerts'`;

/** departure.stopLane — takes the lane away from its owner, whose transactions fail from now on. $1 slot, $2 move */
export const STOP_LANE = `
  UPDATE lane SET epoch = epoch + 1, token = $2, replica = 'a move to another cell', leased_until = 'infinity', crashes = 0
  WHERE queue = 'inbox' AND lane = $1`;

/** departure.lockLane — $1 slot, $2 move */
export const LOCK_STOPPED_LANE = `
  SELECT FROM lane WHERE queue = 'inbox' AND lane = $1 AND token = $2 FOR NO KEY UPDATE`;

/** departure.releaseLane — $1 slot, $2 move */
export const RELEASE_LANE = `
  UPDATE lane SET leased_until = '-infinity', token = NULL, replica = NULL WHERE queue = 'inbox' AND lane = $1 AND token = $2`;

/** Deliveries of messages of a slot that have not ended. Only finished messages have deliveries. */
const OPEN_DELIVERIES = `
  inbox JOIN outbox ON outbox.message = inbox.position AND outbox.settled_at IS NULL
  WHERE inbox.lane = $1 AND inbox.settled_at IS NOT NULL AND inbox.lapsed_at IS NULL AND inbox.source <> ${ALERTS}`;

/**
 * departure.holdDeliveries — keeps them from being claimed. A hold that is not due yet stays as it is: it does the same.
 * $1 slot, $2 move
 */
export const HOLD_DELIVERIES = `
  INSERT INTO hold (queue, lane, key, until, reason, note)
  SELECT DISTINCT 'outbox', outbox.lane, outbox.key, 'infinity'::timestamptz, 'deferred', 'move:' || $2::text
  FROM ${OPEN_DELIVERIES} ORDER BY outbox.lane, outbox.key
  ON CONFLICT (queue, lane, key) DO UPDATE SET until = EXCLUDED.until, reason = EXCLUDED.reason, note = EXCLUDED.note
  WHERE hold.until <= clock_timestamp() AND hold.kept_by IS NULL`;

/** departure.endHolds — they are due now; rows that were parked behind them continue, here or in the other cell. $1 move */
export const END_HOLDS = `
  UPDATE hold SET until = clock_timestamp(), note = NULL WHERE queue = 'outbox' AND note = 'move:' || $1::text`;

/** departure.inFlight — what a receiver or a consumer has now. $1 slot */
export const IN_FLIGHT = `
  SELECT COALESCE((SELECT name FROM listener WHERE number = outbox.listener), '') AS listener
  FROM ${OPEN_DELIVERIES} AND (outbox.status = 'processing' OR EXISTS (
    SELECT FROM pull_lease WHERE pull_lease.lane = outbox.lane AND pull_lease.position = outbox.position)) LIMIT 1`;

/** departure.jobs — a job of operators names deliveries and messages by their place, so it must end first. */
export const UNFINISHED_JOB = `
  SELECT 'replay ' || id AS job FROM replay WHERE done_at IS NULL OR done_at = 'infinity'
  UNION ALL SELECT kind || ' ' || id FROM ruling WHERE done_at IS NULL LIMIT 1`;

/** departure.lockLanes — no delivery is claimed, settled or put back until the transaction ends. */
export const LOCK_OUTBOX_LANES = `SELECT FROM lane WHERE queue = 'outbox' ORDER BY lane FOR NO KEY UPDATE`;

export const CREATE_MOVED = [
  'CREATE TEMPORARY TABLE moved_message (position bigint PRIMARY KEY) ON COMMIT DROP',
  'CREATE TEMPORARY TABLE moved_delivery (position bigint PRIMARY KEY, lane integer, key text) ON COMMIT DROP',
];

/**
 * departure.messages — by the partial indexes, which are together all rows of a lane. First those that are due later, locked: when
 * they are due, they get another position, whoever owns the lane. All others change only under its lock. $1 slot
 */
export const FIND_MESSAGES = [
  `settled_at IS NULL AND waits = 'due' FOR UPDATE`,
  'settled_at IS NULL AND waits IS NULL',
  `settled_at IS NULL AND waits = 'held'`,
  'settled_at IS NOT NULL AND lapsed_at IS NULL',
  'lapsed_at IS NOT NULL',
].map(
  (which) =>
    `INSERT INTO moved_message SELECT position FROM inbox WHERE lane = $1 AND source <> ${ALERTS} AND ${which}`,
);

export const FIND_DELIVERIES = `
  INSERT INTO moved_delivery SELECT outbox.position, outbox.lane, outbox.key
  FROM moved_message JOIN outbox ON outbox.message = moved_message.position`;

export const ANALYZE_MOVED = ['ANALYZE moved_message', 'ANALYZE moved_delivery'];

/** As if they had not been claimed: their last owner has lost the lane, so nothing of its work took effect. */
export const UNMARK_MESSAGES = `
  UPDATE inbox SET status = CASE WHEN waits = 'held' THEN 'held' ELSE 'pending' END, attempt = attempt - 1
  FROM moved_message WHERE moved_message.position = inbox.position AND inbox.status = 'processing'`;

/** Numbers of jobs are those of one cell. 0: some job that has ended. */
export const FORGET_JOBS = [
  `UPDATE inbox SET ruling = 0 FROM moved_message WHERE moved_message.position = inbox.position AND ruling <> 0`,
  `UPDATE outbox SET replay = NULL, ruling = CASE WHEN ruling IS NOT NULL THEN 0 END
   FROM moved_delivery WHERE moved_delivery.position = outbox.position AND (replay IS NOT NULL OR ruling <> 0)`,
];

const OF_MESSAGES = 'position IN (SELECT position FROM moved_message)';
const OF_DELIVERIES = 'position IN (SELECT position FROM moved_delivery)';
const OF_ATTEMPTS = 'delivery IN (SELECT position FROM moved_delivery)';

/** The rows of the engine that leave, in the order in which they are taken in. */
export const engineContents = (slot: number): Content[] => [
  { table: 'inbox', condition: `packed.${OF_MESSAGES}`, parameters: [], order: 'position' },
  { table: 'outbox', condition: `packed.${OF_DELIVERIES}`, parameters: [], order: 'position' },
  { table: 'attempt', condition: OF_ATTEMPTS, parameters: [], order: 'at' },
  {
    table: 'hold',
    condition: `packed.queue = 'inbox' AND packed.lane = $3
      OR packed.queue = 'outbox' AND (packed.lane, packed.key) IN (SELECT lane, key FROM moved_delivery)`,
    parameters: [slot],
    order: 'queue, lane, key',
  },
];

/** departure.counters — the last sequence number of each key at a listener; a copy, because it never goes back. $3 keys */
export const COUNTERS = {
  table: 'delivery_sequence',
  condition: 'packed.key = ANY ($3::text[])',
  order: 'listener, key',
} as const;

const WAITS = (table: string) => `
  EXISTS (SELECT FROM ${table} WHERE ${table}.lane = hold.lane AND ${table}.key = hold.key
            AND ${table}.settled_at IS NULL AND ${table}.waits = 'held')`;

/** departure.remove — a hold stays if alerts wait behind it. */
export const REMOVE_MOVED = [
  `DELETE FROM attempt WHERE ${OF_ATTEMPTS}`,
  `DELETE FROM outbox WHERE ${OF_DELIVERIES}`,
  `DELETE FROM inbox WHERE ${OF_MESSAGES}`,
  `DELETE FROM hold WHERE queue = 'outbox' AND (lane, key) IN (SELECT lane, key FROM moved_delivery) AND NOT ${WAITS('outbox')}`,
];

/** departure.removeHolds — the same for those of messages. $1 slot */
export const REMOVE_HOLDS = `DELETE FROM hold WHERE queue = 'inbox' AND lane = $1 AND NOT ${WAITS('inbox')}`;

/** departure.hasTopics — entries are read by their offset, which is one of a cell. $1 slot */
export const TOPIC_OF_SLOT = `
  SELECT COALESCE((SELECT name FROM topic WHERE number = topic_entry.topic), '') AS topic
  FROM inbox JOIN topic_entry ON topic_entry.message = inbox.position
  WHERE inbox.lane = $1 AND inbox.settled_at IS NOT NULL AND inbox.lapsed_at IS NULL AND inbox.source <> ${ALERTS} LIMIT 1`;

/** departure.hasHistory — a block has messages of 16 slots. $1 slot */
export const HAS_HISTORY = 'SELECT FROM archive_block WHERE lane_group = $1::integer / 16 LIMIT 1';

/** departure.counted — how far each sequence has come. */
export const COUNTED = `
  SELECT (SELECT last_value FROM inbox_position_seq) AS inbox, (SELECT last_value FROM outbox_position_seq) AS outbox,
         (SELECT last_value FROM inbox_applied_seq) AS applied`;
