import { kept } from '../database/kept.ts';

/*
 * Lanes that are held one by one, each under the token it was leased with: many of them in one statement, in the order
 * of their numbers, so that nobody waits for anybody in a circle.
 */

/** held.fence — locks the lanes and answers with the tokens they have now. $1 lanes */
export const FENCE_HELD = kept(`
  SELECT lane, token FROM lane WHERE queue = 'outbox' AND lane = ANY ($1::integer[]) ORDER BY lane FOR NO KEY UPDATE`);

/** held.renew — $1 lanes, sorted, $2 tokens, $3 lease in ms */
export const RENEW_HELD = kept(`
  UPDATE lane SET leased_until = clock_timestamp() + $3 * interval '1 millisecond'
  FROM unnest($1::integer[], $2::uuid[]) AS held(lane, token)
  WHERE lane.queue = 'outbox' AND lane.lane = held.lane AND lane.token = held.token RETURNING lane.lane`);

/** held.release — the next lease does not count as a crash. $1 lanes, sorted, $2 tokens */
export const RELEASE_HELD = kept(`
  UPDATE lane SET leased_until = '-infinity', token = NULL, crashes = 0
  FROM unnest($1::integer[], $2::uuid[]) AS held(lane, token)
  WHERE lane.queue = 'outbox' AND lane.lane = held.lane AND lane.token = held.token`);
