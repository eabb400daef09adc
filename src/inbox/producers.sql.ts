/** producers.find — what a producer sent so far. $1: the source of its api key, $2: its id. */
export const FIND_PRODUCER = `
  SELECT last, missing::text AS missing FROM producer WHERE source = $1 AND id = $2`;
