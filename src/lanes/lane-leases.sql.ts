import { prepared } from '../database/prepared.ts';

/*
 * What the holder of lanes does with them, for both queues: each lane is passed with the token it was leased under. Lanes
 * are locked in the order of their numbers: an UPDATE by itself locks them in the order its plan happens to find them,
 * and two holders could deadlock. Lanes with other tokens are not locked: a replica that lost its lanes must not wait for
 * the transaction of their new holder.
 */

/** lease.fence — locks the lanes until the transaction ends and returns their tokens. $1 queue, $2 lanes, $3 tokens */
export const FENCE = prepared(`
  SELECT lane, token FROM lane WHERE queue = $1 AND lane = ANY ($2::integer[]) AND token = ANY ($3::uuid[])
  ORDER BY lane FOR NO KEY UPDATE`);

/** lease.renew — extends the leases. $1 queue, $2 lanes, $3 tokens, $4 lease in ms */
export const RENEW = prepared(`
  WITH locked AS MATERIALIZED (
    SELECT lane, token FROM lane WHERE queue = $1 AND lane = ANY ($2::integer[]) AND token = ANY ($3::uuid[])
    ORDER BY lane FOR NO KEY UPDATE
  ),
  mine AS MATERIALIZED (
    SELECT locked.lane FROM locked JOIN unnest($2::integer[], $3::uuid[]) AS held(lane, token) USING (lane, token)
  )
  UPDATE lane SET leased_until = clock_timestamp() + $4 * interval '1 millisecond'
  WHERE queue = $1 AND lane = ANY (ARRAY(SELECT mine.lane FROM mine)) RETURNING lane`);

/** lease.release — frees the lanes; the next lease does not count as a crash. $1 queue, $2 lanes, $3 tokens */
export const RELEASE = prepared(`
  UPDATE lane SET leased_until = '-infinity', token = NULL, crashes = 0
  WHERE queue = $1 AND lane = ANY ($2::integer[]) AND token = ANY ($3::uuid[])`);
