/*
 * Rows of vacancies are shared by the messages of many candidates, on every replica at once: two batches that lock the
 * same two rows in opposite order would wait for each other. So: first the missing rows, in one order; then, among rows
 * that are there for good, the changed ones, in one order. Whoever changes waits only for others who change.
 */

/** vacancy.mention — the missing ones of those that messages name; touches and waits for no other. $1 ids, sorted */
export const MENTION = `
  INSERT INTO vacancy (id) SELECT id FROM unnest($1::text[]) AS named(id) ON CONFLICT DO NOTHING`;

/** vacancy.tell — what became of them; null leaves what is there. $1 rows, each vacancy once */
export const TELL = `
  UPDATE vacancy
  SET status = told.status, title = COALESCE(told.title, vacancy.title),
      opened_at = COALESCE(told.opened_at, vacancy.opened_at),
      closed_at = CASE told.status WHEN 'closed' THEN told.closed_at END
  FROM (
    SELECT said.* FROM json_to_recordset($1::json)
      AS said(id text, status text, title text, opened_at timestamptz, closed_at timestamptz)
    JOIN vacancy ON vacancy.id = said.id
    ORDER BY vacancy.id FOR NO KEY UPDATE OF vacancy
  ) AS told
  WHERE vacancy.id = told.id`;
