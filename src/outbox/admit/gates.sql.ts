/** The state of a gate now, by the database's clock. */
const STANDING = `gate.listener, gate.openings, gate.pauses, extract(epoch FROM gate.closed_until - clock_timestamp()) * 1000 AS ms`;

/** gate.all — listeners that nothing is sent to now, those whose circuit waits for a probe, and those whose last response asked for a pause. */
export const GATES = `
  SELECT ${STANDING} FROM gate WHERE closed_until > clock_timestamp() OR openings > 0 OR pauses > 0`;

/** Requests for a pause by calls that were in flight together count as one; after a long time the count starts over. */
const PAUSES = `CASE WHEN gate.closed_until > clock_timestamp() AND NOT $4 THEN GREATEST(gate.pauses, 1)
                     WHEN gate.closed_until < clock_timestamp() - 2 * $6::float8 * interval '1 millisecond' THEN 1
                     ELSE LEAST(gate.pauses + 1, 30) END`;
const UNTIL = `clock_timestamp() + GREATEST($2, LEAST($5::float8 * 2 ^ (${PAUSES} - 1), $6)) * interval '1 millisecond'`;

/**
 * gate.pause — the listener asked for a pause; the longer one counts. If it asks again before anything was delivered, the
 * pause is at least twice as long as the last one: `Retry-After: 0` for days must not become a call a second for days. A
 * response to the probe of a circuit also shows that the endpoint is up: then only the pause is left.
 * $1 listener, $2 ms, $3 reason, $4 whether it was the probe, $5 min ms of the first pause, $6 max of the doubled pause
 */
export const PAUSE = `
  INSERT INTO gate (listener, closed_until, reason, pauses)
  VALUES ($1, clock_timestamp() + $2::float8 * interval '1 millisecond', $3, 1)
  ON CONFLICT (listener) DO UPDATE
  SET reason = EXCLUDED.reason, set_at = clock_timestamp(), openings = CASE WHEN $4 THEN 0 ELSE gate.openings END,
      pauses = ${PAUSES}, closed_until = CASE WHEN $4 THEN ${UNTIL} ELSE GREATEST(gate.closed_until, ${UNTIL}) END
  RETURNING ${STANDING}`;

/** gate.delivered — the next pause counts as the first. $1 listener */
export const FORGET_PAUSES = `UPDATE gate SET pauses = 0 WHERE listener = $1 AND pauses > 0 RETURNING ${STANDING}`;

/**
 * gate.openCircuit — each time for twice as long; a gate that is already closed is not changed.
 * $1 listener, $2 ms of the first opening, $3 max ms, $4 reason
 */
export const OPEN_CIRCUIT = `
  INSERT INTO gate (listener, closed_until, reason, openings)
  VALUES ($1, clock_timestamp() + $2::float8 * interval '1 millisecond', $4, 1)
  ON CONFLICT (listener) DO UPDATE
  SET openings = LEAST(gate.openings + 1, 30), reason = EXCLUDED.reason, set_at = clock_timestamp(),
      closed_until = clock_timestamp() + LEAST($2::float8 * 2 ^ gate.openings, $3) * interval '1 millisecond'
  WHERE gate.closed_until <= clock_timestamp()
  RETURNING ${STANDING}`;

/**
 * gate.takeProbe — one replica may try the circuit, and has a limited time to report the result. The end of that time
 * identifies the probe. $1 listener, $2 ms
 */
export const TAKE_PROBE = `
  UPDATE gate SET closed_until = clock_timestamp() + $2 * interval '1 millisecond', reason = 'probing'
  WHERE listener = $1 AND openings > 0 AND closed_until <= clock_timestamp()
  RETURNING ${STANDING}, gate.closed_until::text AS probe`;

/** gate.returnProbe — unless its result was reported; the circuit may be probed again after the given time. $1 listener, $2 ms, $3 the probe */
export const RETURN_PROBE = `
  UPDATE gate SET closed_until = clock_timestamp() + $2 * interval '1 millisecond', reason = 'to be probed'
  WHERE listener = $1 AND openings > 0 AND reason = 'probing' AND closed_until = $3::timestamptz
  RETURNING ${STANDING}`;

/** gate.probeFailed — unless another probe was taken since. $1 listener, $2 ms of the first opening, $3 max ms, $4 reason, $5 the probe */
export const PROBE_FAILED = `
  UPDATE gate SET openings = LEAST(openings + 1, 30), reason = $4, set_at = clock_timestamp(),
         closed_until = clock_timestamp() + LEAST($2::float8 * 2 ^ openings, $3) * interval '1 millisecond'
  WHERE listener = $1 AND openings > 0 AND closed_until = $5::timestamptz
  RETURNING ${STANDING}`;

/** gate.closeCircuit — the listener is sent to again, unless an earlier call was asked for a pause meanwhile. $1 listener */
export const CLOSE_CIRCUIT = `
  UPDATE gate SET openings = 0, set_at = clock_timestamp(),
         closed_until = CASE WHEN reason = 'probing' THEN clock_timestamp() ELSE closed_until END
  WHERE listener = $1
  RETURNING ${STANDING}`;

/** gate.removeOlder — removes the gate unless it was set after the listener was last changed. $1 listener */
export const REMOVE_OLDER_GATE = `
  DELETE FROM gate USING listener
  WHERE gate.listener = $1 AND listener.number = $1 AND gate.set_at < GREATEST(listener.updated_at, listener.state_since)`;
