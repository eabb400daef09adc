/**
 * arrival.countAbove — new rows come behind those that arrive: order goes by numbers. Far above, because others count here
 * meanwhile, and a sequence that was set back would give out a number twice. $1 sequence, $2 what the other cell has
 * counted, $3 the cell, whose positions are its number modulo 256; null for a sequence that all cells count alike
 */
export const COUNT_ABOVE = `
  SELECT setval($1::text::regclass, (($2::bigint + 4294967296) / 256) * 256 + COALESCE($3::bigint, 0))
  WHERE COALESCE(pg_sequence_last_value($1::text::regclass), 0) <= $2::bigint`;
