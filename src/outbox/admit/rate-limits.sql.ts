/**
 * rate.take — reserves the next permits, at most $4 and none later than $5 ms from now. Permits are 1 / rate apart; up to a
 * burst of them may lie in the past, and can be used now. They are reserved in advance so that no permit is lost while a
 * replica waits for this statement, as a token bucket of size one would lose tokens.
 * All replicas take permits from the same row, so no window has more than the rate and one burst.
 * $1 listener, $2 per second, $3 burst, $4 max permits, $5 ms ahead
 */
export const RESERVE_PERMITS = `
  WITH next AS (
    SELECT clock_timestamp() AS now,
           LEAST(GREATEST(rate.next_at, clock_timestamp() - ($3::float8 - 1) / $2::float8 * interval '1 second'),
                 clock_timestamp() + $5::float8 * interval '1 millisecond' + 1 / $2::float8 * interval '1 second') AS next_at
    FROM rate WHERE rate.listener = $1 FOR UPDATE
  ),
  reserved AS (
    SELECT now, next_at,
           GREATEST(0, LEAST($4::float8, floor((extract(epoch FROM now - next_at) + $5::float8 / 1000) * $2::float8) + 1)) AS permits
    FROM next
  )
  UPDATE rate SET next_at = reserved.next_at + reserved.permits / $2::float8 * interval '1 second'
  FROM reserved WHERE rate.listener = $1
  RETURNING reserved.permits::int AS permits, (extract(epoch FROM reserved.next_at - reserved.now) * 1000)::float8 AS ms`;

/** rate.add — starts with a whole burst available. $1 listener */
export const ADD_RATE = `INSERT INTO rate (listener, next_at) VALUES ($1, '-infinity') ON CONFLICT DO NOTHING`;
