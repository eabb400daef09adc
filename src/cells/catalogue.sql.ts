/** cells.turn — one change of the catalogue at a time. */
export const TAKE_TURN = `SELECT pg_advisory_xact_lock(hashtext('sluice'), hashtext('cells'))`;

/** cells.self — which cell a database is; no row if it is none yet. */
export const SELF = 'SELECT catalogue, number, name FROM cell_self';

/** cells.become — $1 catalogue, or null for a new one, $2 number, $3 name */
export const BECOME = `
  INSERT INTO cell_self (catalogue, number, name) VALUES (COALESCE($1::uuid, gen_random_uuid()), $2, $3)
  ON CONFLICT DO NOTHING`;

/** cells.isUsed — whether a Sluice has worked here. */
export const IS_USED = `
  SELECT EXISTS (SELECT FROM inbox) OR EXISTS (SELECT FROM listener) OR EXISTS (SELECT FROM topic)
    OR EXISTS (SELECT FROM consumer_group) OR EXISTS (SELECT FROM archive_id) AS used`;

/** cells.closedSlots — the name of the cell, if it does not have all keys. */
export const IS_PART = 'SELECT name FROM cell_self WHERE EXISTS (SELECT FROM cell_fence WHERE NOT open)';

/** cells.add — cells that the catalogue does not have yet, in this order. $1 names */
export const ADD_CELLS = `
  INSERT INTO cell (number, name)
  SELECT (SELECT COALESCE(max(number), -1) FROM cell) + row_number() OVER (ORDER BY given.nth), given.name
  FROM unnest($1::text[]) WITH ORDINALITY AS given(name, nth)
  WHERE NOT EXISTS (SELECT FROM cell WHERE cell.name = given.name)`;

/** cells.sortsByCodePoints — as lists of several cells are merged; a language has another order. */
export const SORTS_BY_CODE_POINTS = `SELECT 'B' < 'a' AND U&'\\FFFD' < U&'\\+01F600' AS sorts`;

export const CELLS = 'SELECT number, name FROM cell ORDER BY number';

/**
 * cells.divide — all slots, once: even shares in a row for each cell, or all for the home cell if it has messages already.
 * $1 slots, $2 cells
 */
export const DIVIDE_SLOTS = `
  INSERT INTO cell_slot (slot, cell, version)
  SELECT slot, CASE WHEN EXISTS (SELECT FROM inbox) THEN 0 ELSE slot * $2::integer / $1::integer END, 1
  FROM generate_series(0, $1::integer - 1) AS slot
  WHERE NOT EXISTS (SELECT FROM cell_slot)`;

/** cells.slots */
export const SLOTS_OF_CELLS = `
  SELECT slot, cell, version, moving_to FROM cell_slot ORDER BY slot`;

/**
 * cells.fence — what may be written here, by the catalogue. A slot's version never goes back: what another replica read
 * earlier and writes later changes nothing. $1 slots, $2 whether each is open here, $3 versions
 */
export const SET_FENCE = `
  INSERT INTO cell_fence AS fence (slot, open, version)
  SELECT * FROM unnest($1::smallint[], $2::boolean[], $3::bigint[])
  ON CONFLICT (slot) DO UPDATE SET open = EXCLUDED.open, version = EXCLUDED.version WHERE fence.version < EXCLUDED.version`;

/** cells.lockFence — waits for the transactions that have written messages, and keeps out new ones until this one ends. */
export const LOCK_FENCE = `SELECT pg_advisory_xact_lock(hashtextextended('sluice.cell-fence', 0))`;

/** cells.closesSlot — whether a slot that is open here will be closed. $1 to $3 as above */
export const CLOSES_SLOT = `
  SELECT FROM unnest($1::smallint[], $2::boolean[], $3::bigint[]) AS given(slot, open, version)
  JOIN cell_fence AS fence USING (slot) WHERE fence.open AND NOT given.open AND fence.version < given.version LIMIT 1`;

/**
 * cells.shareFence — for a transaction that opens a slot and then writes messages, as each of these does: whoever closes slots
 * waits for it, instead of each for the other.
 */
export const SHARE_FENCE = `SELECT pg_advisory_xact_lock_shared(hashtextextended('sluice.cell-fence', 0))`;

/** cells.isFenced */
export const IS_FENCED = `
  SELECT FROM pg_trigger WHERE tgrelid = 'inbox'::regclass AND tgname = 'cell_fence' AND NOT tgisinternal`;

/** cells.addFence — only where CELLS is set: without it, nothing is slower. */
export const ADD_FENCE = `
  CREATE TRIGGER cell_fence AFTER INSERT ON inbox REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION cell_fence_inbox()`;

/** cells.countsApart — whether the rows of a table get positions of this cell only. $1 table */
export const COUNTS_APART = `
  SELECT FROM pg_sequence WHERE seqrelid = pg_get_serial_sequence($1, 'position')::regclass AND seqincrement = 256`;

/**
 * cells.ownPositions — positions of cell n are n modulo 256, so that rows that come from another cell never have a position of
 * this one, however far it has counted; and each cell begins at a number of its own, above what a Sluice without cells has counted.
 * 2^45 numbers for each of 256 cells fit into the 2^53 that a number holds exactly. A million is skipped: others may be
 * counting right now. $1 table, $2 cell
 */
export const OWN_POSITIONS = `
  SELECT setval(pg_get_serial_sequence($1, 'position'),
                ((GREATEST(nextval(pg_get_serial_sequence($1, 'position')), $2::bigint << 45) + 1000000) / 256) * 256 + $2)`;

/** cells.countApart */
export const COUNT_APART = (table: 'inbox' | 'outbox') =>
  `ALTER SEQUENCE ${table}_position_seq INCREMENT BY 256`;
