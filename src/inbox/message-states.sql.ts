/**
 * messages.states — the state of the messages with these ids, one for each source that used the id. A superseded message takes
 * effect through the message that superseded it, so it has the state of that one.
 */
export const MESSAGE_STATES = `
  WITH RECURSIVE asked AS (
    SELECT id, source, status, settled_at, superseded_by FROM inbox WHERE id = ANY ($1::text[])
    UNION ALL
    SELECT asked.id, asked.source, winner.status, winner.settled_at, winner.superseded_by
    FROM asked JOIN inbox AS winner ON winner.position = asked.superseded_by
  )
  SELECT id, source, CASE WHEN bool_or(settled_at IS NULL) THEN 'waiting'
                  WHEN bool_or(status IN ('dead', 'expired', 'discarded')) THEN 'dead' ELSE 'finished' END AS state
  FROM asked GROUP BY id, source`;
