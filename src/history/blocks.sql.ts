/** Which types a block must have at least one of; NULL: any. */
const HAS_TYPE = (patterns: string) =>
  `(${patterns}::text[] IS NULL OR EXISTS (SELECT FROM unnest(block.types) AS type WHERE type LIKE ANY (${patterns}::text[])))`;

/**
 * history.blocksAfter — blocks with messages behind a place, by where they begin. $1 lane group, $2 applied, $3 position,
 * $4 type patterns, $5 max blocks
 */
export const BLOCKS_AFTER = `
  SELECT id, first_applied, first_position FROM archive_block AS block
  WHERE lane_group = $1 AND (last_applied, last_position) > ($2, $3) AND ${HAS_TYPE('$4')}
  ORDER BY first_applied, first_position, id LIMIT $5`;

/** history.body — $1 block */
export const BODY = 'SELECT body FROM archive_block WHERE id = $1';

/** history.blocksAround — those that may have the message at a position. $1 lane group, $2 position */
export const BLOCKS_AROUND = `
  SELECT id FROM archive_block WHERE lane_group = $1 AND high_position >= $2 AND low_position <= $2 ORDER BY high_position`;

/** history.places — where messages with this id may be: its hash is not unique. $1 id */
export const PLACES = `
  SELECT (place % 16)::int AS "laneGroup", place / 16 AS position FROM archive_id WHERE id = hashtextextended($1, 0) ORDER BY place LIMIT 20`;
