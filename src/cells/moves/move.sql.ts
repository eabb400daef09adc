/** What is returned of a move. */
const FIELDS = `id, slot, from_cell AS "from", to_cell AS "to", state, replica, rows, error,
  created_at AS "createdAt", created_by AS "createdBy", ended_at AS "endedAt",
  round(extract(epoch FROM opened_at - closed_at) * 1000)::integer AS "pauseMs"`;

/** move.request — slots that are not there yet. $1 slots, $2 to, $3 by */
export const REQUEST_MOVES = `
  INSERT INTO cell_move (slot, from_cell, to_cell, created_by)
  SELECT slot, cell, $2, $3 FROM cell_slot WHERE slot = ANY ($1::smallint[]) AND cell <> $2 ORDER BY slot
  RETURNING ${FIELDS}`;

/** move.openOf — $1 slots */
export const OPEN_MOVE_OF =
  'SELECT slot FROM cell_move WHERE ended_at IS NULL AND slot = ANY ($1::smallint[]) LIMIT 1';

/** move.list — unfinished moves, and the last that ended. $1 how many of these */
export const MOVES = `
  SELECT ${FIELDS} FROM cell_move WHERE ended_at IS NULL
  UNION ALL (SELECT ${FIELDS} FROM cell_move WHERE ended_at IS NOT NULL ORDER BY ended_at DESC LIMIT $1)
  ORDER BY "createdAt" DESC, slot DESC`;

/** move.state — $1 move, $2 mover */
export const STATE_OF = 'SELECT state FROM cell_move WHERE id = $1 AND mover = $2';

const IS_MOVING = 'moving.ended_at IS NULL AND moving.mover_until > clock_timestamp()';

/**
 * move.take — the next one, unless a replica is moving another: those that lost their mover come first.
 * $1 mover, $2 lease in ms, $3 replica, $4 numbers of the cells that are up
 */
export const TAKE_MOVE = `
  UPDATE cell_move SET mover = $1, mover_until = clock_timestamp() + $2 * interval '1 millisecond', replica = $3
  WHERE id = (
      SELECT next.id FROM cell_move AS next
      WHERE next.ended_at IS NULL AND next.from_cell = ANY ($4::smallint[])
        AND (next.to_cell = ANY ($4) OR next.state IN ('preparing', 'cleaning'))
      ORDER BY next.state = 'waiting', next.created_at, next.slot LIMIT 1)
    AND NOT EXISTS (SELECT FROM cell_move AS moving WHERE ${IS_MOVING})
  RETURNING ${FIELDS}`;

const OWN = 'id = $1 AND mover = $2 AND ended_at IS NULL';

/** move.renew — $1 move, $2 mover, $3 lease in ms */
export const RENEW_MOVE = `
  WITH renewed AS (
    UPDATE cell_move SET mover_until = clock_timestamp() + $3 * interval '1 millisecond' WHERE ${OWN} RETURNING id, mover_until
  ),
  slot AS (UPDATE cell_slot SET mover_until = renewed.mover_until FROM renewed WHERE cell_slot.mover = renewed.id)
  SELECT FROM renewed`;

/** move.release — another replica may continue it after a while. $1 move, $2 mover, $3 ms */
export const RELEASE_MOVE = `
  UPDATE cell_move SET mover_until = clock_timestamp() + $3 * interval '1 millisecond' WHERE ${OWN}`;

/** move.prepare — $1 move, $2 mover */
export const PREPARE_MOVE = `UPDATE cell_move SET state = 'preparing' WHERE ${OWN} AND state = 'waiting'`;

/** move.close — $1 move, $2 mover */
export const CLOSE_MOVE = `
  UPDATE cell_move SET state = 'closed', closed_at = clock_timestamp() WHERE ${OWN} AND state = 'preparing'`;

/** move.closeSlot — from now on posts wait. $1 move */
export const CLOSE_SLOT = `
  UPDATE cell_slot SET version = version + 1, moving_to = to_cell, mover = cell_move.id, mover_until = cell_move.mover_until
  FROM cell_move WHERE cell_move.id = $1 AND cell_slot.slot = cell_move.slot AND cell_slot.cell = cell_move.from_cell
    AND cell_slot.moving_to IS NULL
  RETURNING version`;

/** move.version — of the slot while it is closed. $1 move */
export const CLOSED_VERSION = 'SELECT version FROM cell_slot WHERE mover = $1';

/** move.switchSlot — nothing if it was done before. $1 move */
export const SWITCH_SLOT = `
  UPDATE cell_slot SET version = version + 1, cell = moving_to, moving_to = NULL, mover = NULL, mover_until = NULL WHERE mover = $1`;

/** move.reopenSlot — $1 move */
export const REOPEN_SLOT = `
  UPDATE cell_slot SET version = version + 1, moving_to = NULL, mover = NULL, mover_until = NULL WHERE mover = $1`;

/** move.switched — $1 move, $2 mover */
export const SWITCHED = `
  UPDATE cell_move SET state = 'cleaning', opened_at = clock_timestamp(), error = NULL
  WHERE ${OWN} AND state = 'closed'`;

/** move.setRows — $1 move, $2 mover, $3 rows */
export const SET_ROWS = `UPDATE cell_move SET rows = $3 WHERE ${OWN}`;

/** move.done — $1 move, $2 mover */
export const DONE = `UPDATE cell_move SET state = 'done', ended_at = clock_timestamp() WHERE ${OWN} AND state = 'cleaning'`;

/** move.undone — $1 move, $2 mover, $3 why */
export const UNDONE = `
  UPDATE cell_move SET state = 'undone', ended_at = clock_timestamp(), opened_at = clock_timestamp(), error = COALESCE(error, $3)
  WHERE ${OWN} AND state IN ('waiting', 'preparing', 'closed')`;

/** move.failed — why it is undone, should that take another replica. $1 move, $2 mover, $3 why */
export const FAILED = `UPDATE cell_move SET error = $3 WHERE ${OWN} AND error IS NULL`;

/** move.undoForeign — slots that are closed for no move that is known. */
export const REOPEN_UNKNOWN = `
  UPDATE cell_slot SET version = version + 1, moving_to = NULL, mover = NULL, mover_until = NULL
  WHERE moving_to IS NOT NULL AND mover_until <= clock_timestamp()
    AND NOT EXISTS (SELECT FROM cell_move WHERE cell_move.id = cell_slot.mover AND cell_move.ended_at IS NULL)`;
