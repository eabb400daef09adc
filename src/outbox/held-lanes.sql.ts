import { kept } from '../database/kept.ts';

/*
 * Lanes that are held one by one, each under the token it was leased with: many of them in one statement, in the order
 * of their numbers, so that nobody waits for anybody in a circle.
 */

/** held.fence — locks the lanes and answers with the tokens they have now. $1 lanes */
export const FENCE_HELD = kept(`
  SELECT lane, token FROM lane WHERE queue = 'outbox' AND lane = ANY ($1::integer[]) ORDER BY lane FOR NO KEY UPDATE`);

/** held.renew — an UPDATE by itself locks in the order its plan happens to find the rows. $1 lanes, $2 tokens, $3 lease in ms */
export const RENEW_HELD = kept(`
  WITH locked AS MATERIALIZED (
    SELECT lane, token FROM lane WHERE queue = 'outbox' AND lane = ANY ($1::integer[]) ORDER BY lane FOR NO KEY UPDATE
  ),
  mine AS MATERIALIZED (
    SELECT locked.lane FROM locked JOIN unnest($1::integer[], $2::uuid[]) AS held(lane, token) USING (lane, token)
  )
  UPDATE lane SET leased_until = clock_timestamp() + $3 * interval '1 millisecond'
  WHERE queue = 'outbox' AND lane = ANY (ARRAY(SELECT mine.lane FROM mine)) RETURNING lane`);

/** held.release — those that the transaction has fenced; the next lease does not count as a crash. $1 lanes, $2 tokens */
export const RELEASE_HELD = kept(`
  UPDATE lane SET leased_until = '-infinity', token = NULL, crashes = 0
  WHERE queue = 'outbox' AND lane = ANY ($1::integer[]) AND token = ANY ($2::uuid[])`);
