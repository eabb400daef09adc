/** history.totals — over the blocks, of which there is one for up to 2,000 messages. */
export const TOTALS = `
  SELECT COALESCE(sum(count), 0)::float8 AS messages, count(*)::int AS blocks, COALESCE(sum(octet_length(body)), 0)::float8 AS bytes,
         min(from_at) AS oldest, max(to_at) AS newest
  FROM archive_block`;
