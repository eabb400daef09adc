/** What a gate is now, by the database's clock. */
const STANDING = `gate.listener, gate.openings, gate.pauses, extract(epoch FROM gate.closed_until - clock_timestamp()) * 1000 AS ms`;

/** gate.all — listeners nothing is sent to now, those whose circuit waits to be tried, and those that asked for a pause last. */
export const GATES = `
  SELECT ${STANDING} FROM gate WHERE closed_until > clock_timestamp() OR openings > 0 OR pauses > 0`;

/** Those in flight together ask once; whoever asked long ago asks anew. */
const PAUSES = `CASE WHEN gate.closed_until > clock_timestamp() AND NOT $4 THEN GREATEST(gate.pauses, 1)
                     WHEN gate.closed_until < clock_timestamp() - 2 * $6::float8 * interval '1 millisecond' THEN 1
                     ELSE LEAST(gate.pauses + 1, 30) END`;
const UNTIL = `clock_timestamp() + GREATEST($2, LEAST($5::float8 * 2 ^ (${PAUSES} - 1), $6)) * interval '1 millisecond'`;

/**
 * gate.pause — asked to wait; the longer wait counts. Asked again before anything was delivered, it is at least twice as long
 * as the last time: `Retry-After: 0` for days must not become a call a second for days. An answer to the probe of a circuit
 * also says that the endpoint is there: then only the pause is left.
 * $1 listener, $2 ms, $3 reason, $4 whether it was the probe, $5 least ms at first, $6 least ms at last
 */
export const PAUSE = `
  INSERT INTO gate (listener, closed_until, reason, pauses)
  VALUES ($1, clock_timestamp() + $2::float8 * interval '1 millisecond', $3, 1)
  ON CONFLICT (listener) DO UPDATE
  SET reason = EXCLUDED.reason, set_at = clock_timestamp(), openings = CASE WHEN $4 THEN 0 ELSE gate.openings END,
      pauses = ${PAUSES}, closed_until = CASE WHEN $4 THEN ${UNTIL} ELSE GREATEST(gate.closed_until, ${UNTIL}) END
  RETURNING ${STANDING}`;

/** gate.delivered — the next pause is the first again. $1 listener */
export const FORGET_PAUSES = `UPDATE gate SET pauses = 0 WHERE listener = $1 AND pauses > 0 RETURNING ${STANDING}`;

/**
 * gate.openCircuit — each time for twice as long; one that is closed already stays as it is.
 * $1 listener, $2 first ms, $3 longest ms, $4 reason
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
 * gate.takeProbe — one replica may try the circuit, and has a while to say how it went. The end of that while tells this probe
 * from any other. $1 listener, $2 ms
 */
export const TAKE_PROBE = `
  UPDATE gate SET closed_until = clock_timestamp() + $2 * interval '1 millisecond', reason = 'probing'
  WHERE listener = $1 AND openings > 0 AND closed_until <= clock_timestamp()
  RETURNING ${STANDING}, gate.closed_until::text AS probe`;

/** gate.returnProbe — unless it told something; it may be tried again after a while. $1 listener, $2 ms, $3 the probe */
export const RETURN_PROBE = `
  UPDATE gate SET closed_until = clock_timestamp() + $2 * interval '1 millisecond', reason = 'to be probed'
  WHERE listener = $1 AND openings > 0 AND reason = 'probing' AND closed_until = $3::timestamptz
  RETURNING ${STANDING}`;

/** gate.probeFailed — unless another has been taken since. $1 listener, $2 first ms, $3 longest ms, $4 reason, $5 the probe */
export const PROBE_FAILED = `
  UPDATE gate SET openings = LEAST(openings + 1, 30), reason = $4, set_at = clock_timestamp(),
         closed_until = clock_timestamp() + LEAST($2::float8 * 2 ^ openings, $3) * interval '1 millisecond'
  WHERE listener = $1 AND openings > 0 AND closed_until = $5::timestamptz
  RETURNING ${STANDING}`;

/** gate.closeCircuit — it may be sent to, unless a call from before has been asked to wait meanwhile. $1 listener */
export const CLOSE_CIRCUIT = `
  UPDATE gate SET openings = 0, set_at = clock_timestamp(),
         closed_until = CASE WHEN reason = 'probing' THEN clock_timestamp() ELSE closed_until END
  WHERE listener = $1
  RETURNING ${STANDING}`;

/** gate.removeOlder — unless it was set after the listener was last changed. $1 listener */
export const REMOVE_OLDER_GATE = `
  DELETE FROM gate USING listener
  WHERE gate.listener = $1 AND listener.number = $1 AND gate.set_at < GREATEST(listener.updated_at, listener.state_since)`;
