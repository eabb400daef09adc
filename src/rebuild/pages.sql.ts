/** Lanes that are where they were when their messages were read. Others are at work on the rest. $1 rebuild, $2 lanes, $3 applied, $4 positions */
export const LOCK_LANES = `
  SELECT progress.lane FROM rebuild_lane AS progress
  JOIN unnest($2::int[], $3::bigint[], $4::bigint[]) AS read(lane, applied, position) USING (lane, applied, position)
  WHERE progress.rebuild = $1 ORDER BY progress.lane FOR UPDATE OF progress SKIP LOCKED`;
