/**
 * inbox.wakeDue — messages that are due join the end of their lane in the order they were due, as if they were posted now:
 * they get a new position, so that a claim need not search before its last position. One replica at a time: two would each
 * take a part, and the later part could come first. $1 max
 */
export const WAKE_DUE = `
  WITH only_one AS MATERIALIZED (SELECT pg_try_advisory_xact_lock(hashtext('sluice'), hashtext('inbox.wakeDue')) AS mine),
  due AS MATERIALIZED (
    SELECT inbox.position FROM inbox
    WHERE settled_at IS NULL AND waits = 'due' AND due_at <= statement_timestamp() AND (SELECT mine FROM only_one)
    ORDER BY due_at, position LIMIT $1
    FOR NO KEY UPDATE
  ),
  turn AS MATERIALIZED (
    SELECT position, nextval(pg_get_serial_sequence('inbox', 'position')) AS next FROM due
  )
  UPDATE inbox SET status = 'pending', waits = NULL, position = turn.next
  FROM turn WHERE inbox.position = turn.position
  RETURNING lane`;

/** inbox.nextDue — milliseconds until the next one. */
export const NEXT_DUE = `
  SELECT ceil(extract(epoch FROM due_at - clock_timestamp()) * 1000)::bigint AS ms FROM inbox
  WHERE settled_at IS NULL AND waits = 'due' ORDER BY due_at LIMIT 1`;
