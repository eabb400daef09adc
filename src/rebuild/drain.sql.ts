/**
 * Each drain of a rebuild is longer than the one before, up to 60 s, and live traffic has as long in between. $1 rebuild
 */
export const REQUEST_DRAIN = `
  UPDATE rebuild SET drain_until = clock_timestamp() + next.length, drains = drains + 1
  FROM (SELECT id, LEAST(60, 5 * 2 ^ LEAST(drains, 6)) * interval '1 second' AS length FROM rebuild WHERE id = $1) AS next
  WHERE rebuild.id = next.id AND rebuild.ended_at IS NULL AND (drain_until IS NULL OR drain_until < clock_timestamp() - next.length)`;

/** How long the inbox is to be drained, and how many rebuilds may ask for it. */
export const DRAIN = `
  SELECT count(*)::int AS open, COALESCE(max(extract(epoch FROM drain_until - clock_timestamp()) * 1000), 0)::int AS ms
  FROM rebuild WHERE ended_at IS NULL AND NOT paused AND status IN ('replaying', 'comparing', 'switching')`;
