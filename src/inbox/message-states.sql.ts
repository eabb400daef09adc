/**
 * settlements.look — how messages stand, for each source that used the id. What was superseded takes effect through its
 * winner, so it stands as that one does.
 */
export const MESSAGE_STATES = `
  WITH RECURSIVE asked AS (
    SELECT id, source, status, settled_at, superseded_by FROM inbox WHERE id = ANY ($1::text[])
    UNION ALL
    SELECT asked.id, asked.source, winner.status, winner.settled_at, winner.superseded_by
    FROM asked JOIN inbox AS winner ON winner.position = asked.superseded_by
  )
  SELECT id, source, CASE WHEN bool_or(settled_at IS NULL) THEN 'waiting'
                  WHEN bool_or(status IN ('dead', 'expired', 'discarded')) THEN 'dead' ELSE 'finished' END AS standing
  FROM asked GROUP BY id, source`;
