/*
 * Rows of vacancies are shared by the messages of many candidates, on every replica at once: two batches that lock the
 * same two rows in opposite order would wait for each other. So: first the missing rows, in one order; then, among rows
 * that are there for good, the changed ones, in one order. A transaction that changes rows waits only for others that change them.
 */

/** vacancy.insertMissing — the vacancies that messages name and that do not exist; locks no other row. $1 ids, sorted */
export const INSERT_MISSING = `
  INSERT INTO vacancy (id) SELECT id FROM unnest($1::text[]) AS named(id) ON CONFLICT DO NOTHING`;

/** vacancy.update — null keeps the current value. $1 rows, each vacancy once */
export const UPDATE_VACANCIES = `
  UPDATE vacancy
  SET status = new_state.status, title = COALESCE(new_state.title, vacancy.title),
      opened_at = COALESCE(new_state.opened_at, vacancy.opened_at),
      closed_at = CASE new_state.status WHEN 'closed' THEN new_state.closed_at END
  FROM (
    SELECT given.* FROM json_to_recordset($1::json)
      AS given(id text, status text, title text, opened_at timestamptz, closed_at timestamptz)
    JOIN vacancy ON vacancy.id = given.id
    ORDER BY vacancy.id FOR NO KEY UPDATE OF vacancy
  ) AS new_state
  WHERE vacancy.id = new_state.id`;
