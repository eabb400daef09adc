/** The time in which a replica counts before it writes: the shortest step of a series. */
export const SLOT_SECONDS = 10;
const SLOT = `interval '${SLOT_SECONDS} seconds'`;
const EPOCH = `timestamptz 'epoch'`;

/** What is written shortly after the end of a slot belongs to that slot. */
const WRITTEN_SLOT = `date_bin(${SLOT}, clock_timestamp() - ${SLOT} / 2, ${EPOCH})`;
const MS_TO_NEXT = `ceil(extract(epoch FROM date_bin(${SLOT}, clock_timestamp(), ${EPOCH}) + ${SLOT} - clock_timestamp()) * 1000)::int AS "msToNext"`;
/** A slot is complete when every replica has had time to write it. */
const COMPLETE = `date_bin(${SLOT}, clock_timestamp() - interval '2 seconds', ${EPOCH})`;

/** activity.write — $1 replica, $2 accepted, $3 applied, $4 failed, $5 dead, $6 listeners, $7 groups */
export const WRITE = `
  INSERT INTO activity (replica, at, until, accepted, applied, failed, dead, listeners, groups)
  SELECT $1, slot, slot + ${SLOT}, $2, $3, $4, $5, $6::jsonb, $7::jsonb FROM (SELECT ${WRITTEN_SLOT} AS slot) AS written
  RETURNING id, ${MS_TO_NEXT}`;

/** activity.extend — a slot in which nothing happened, like in those before it. $1 the row of those */
export const EXTEND = `
  UPDATE activity SET until = written.slot + ${SLOT} FROM (SELECT ${WRITTEN_SLOT} AS slot) AS written
  WHERE id = $1 AND until >= written.slot RETURNING id, ${MS_TO_NEXT}`;

/** activity.window — the last complete slots: their end, and what each replica wrote in them. $1 seconds */
export const WINDOW = `
  SELECT activity.replica, activity.accepted, activity.applied, activity.failed, activity.dead, activity.listeners, activity.groups,
         extract(epoch FROM clock_timestamp() - complete.until)::float8 AS "secondsSince"
  FROM (SELECT ${COMPLETE} AS until) AS complete
  LEFT JOIN activity ON activity.until > complete.until - $1 * interval '1 second'
    AND activity.at < complete.until AND activity.at >= complete.until - $1 * interval '1 second'`;

/** activity.span — the time that a series covers, up to the last complete slot. $1 range in seconds */
export const SPAN = `
  SELECT until - $1 * interval '1 second' AS "from", until AS "to" FROM (SELECT ${COMPLETE} AS until) AS complete`;

/** Which step a row belongs to. $1 from, $2 to, $3 step in seconds */
const STEP = `floor(extract(epoch FROM at - $1::timestamptz) / $3)::int`;
const WRITTEN = 'until > $1 AND at >= $1 AND at < $2';

/** activity.totals — by step; a step without a row is one that no replica reported. Parameters as above. */
export const TOTALS = `
  SELECT step, sum(accepted)::float8 AS accepted, sum(applied)::float8 AS applied, sum(failed)::float8 AS failed,
         sum(dead)::float8 AS dead
  FROM (
    SELECT ${STEP} AS step, accepted, applied, failed, dead FROM activity WHERE ${WRITTEN}
    UNION ALL
    SELECT step, 0, 0, 0, 0 FROM activity CROSS JOIN LATERAL generate_series(
      GREATEST(0, ${STEP}), (ceil(extract(epoch FROM LEAST(until, $2) - $1) / $3) - 1)::int) AS step
    WHERE until > $1 AND at < $2 AND until > at + ${SLOT}
  ) AS counted GROUP BY step`;

/** activity.listeners — by step and listener, those with most attempts. $4 max listeners */
export const LISTENERS = `
  WITH counted AS MATERIALIZED (
    SELECT ${STEP} AS step, one.name, (one.counts ->> 'delivered')::bigint AS delivered,
           (one.counts ->> 'failed')::bigint AS failed, one.counts -> 'durations' AS durations
    FROM activity CROSS JOIN LATERAL jsonb_each(listeners) AS one(name, counts) WHERE ${WRITTEN} AND listeners IS NOT NULL
  ),
  busiest AS MATERIALIZED (
    SELECT name FROM counted GROUP BY name ORDER BY sum(delivered + failed) DESC, name LIMIT $4
  ),
  by_step AS (
    SELECT step, name, sum(delivered)::float8 AS delivered, sum(failed)::float8 AS failed
    FROM counted WHERE name IN (SELECT name FROM busiest) GROUP BY step, name
  ),
  by_bucket AS (
    SELECT step, name, jsonb_object_agg(bucket, count) AS durations FROM (
      SELECT step, name, bucket, sum(count::bigint) AS count
      FROM counted CROSS JOIN LATERAL jsonb_each_text(durations) AS one(bucket, count)
      WHERE name IN (SELECT name FROM busiest) GROUP BY step, name, bucket
    ) AS summed GROUP BY step, name
  )
  SELECT step, name, delivered, failed, durations FROM by_step JOIN by_bucket USING (step, name)`;

/** activity.groups — by step and consumer group, those with most commits. $4 max groups */
export const GROUPS = `
  WITH counted AS MATERIALIZED (
    SELECT ${STEP} AS step, one.name, one.committed::bigint AS committed
    FROM activity CROSS JOIN LATERAL jsonb_each_text(groups) AS one(name, committed) WHERE ${WRITTEN} AND groups IS NOT NULL
  )
  SELECT step, name, sum(committed)::float8 AS committed FROM counted
  WHERE name IN (SELECT name FROM counted GROUP BY name ORDER BY sum(committed) DESC, name LIMIT $4)
  GROUP BY step, name`;

/** activity.remove — $1 max rows */
export const REMOVE = `
  DELETE FROM activity WHERE id IN (
    SELECT id FROM activity WHERE until < clock_timestamp() - interval '24 hours' ORDER BY until LIMIT $1)`;
