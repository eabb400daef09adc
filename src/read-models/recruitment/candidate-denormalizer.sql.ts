/*
 * Each is one statement that reads, decides and writes at once, because nothing else is safe here: a message posted
 * without a key is in no order with the others of its candidate, and another replica may be applying one right now.
 * Whoever comes second waits for the row and decides on what the first one left. (Two batches full of such messages may
 * lock the same candidates in opposite order; that is rare, and the engine tries the loser again.)
 *
 * A message that changes nothing (upstream sent it twice) adds no step to the history.
 */

/**
 * candidate.apply — a new candidate; or the name and vacancy of one of whom we heard later things first (without a key
 * that happens), whose status stays. One who applies for another vacancy starts again.
 * $1 id, $2 name, $3 vacancy, $4 at, $5 by, $6 note, $7 message
 */
export const APPLY = `
  WITH changed AS (
    INSERT INTO candidate AS known (id, name, vacancy_id, status, applied_at, changed_at, version)
    VALUES ($1, COALESCE($2, ''), $3, 'applied', $4, $4, 1)
    ON CONFLICT (id) DO UPDATE
    SET name = COALESCE($2, known.name), vacancy_id = COALESCE($3, known.vacancy_id),
        status = CASE WHEN known.vacancy_id <> $3 THEN 'applied' ELSE known.status END,
        applied_at = CASE WHEN known.vacancy_id <> $3 THEN $4 ELSE LEAST(known.applied_at, $4) END,
        changed_at = GREATEST(known.changed_at, $4), version = known.version + 1
    WHERE known.name <> $2 OR known.vacancy_id IS DISTINCT FROM COALESCE($3, known.vacancy_id)
    RETURNING id, version
  )
  INSERT INTO candidate_step (candidate_id, step, status, by, at, note, message_id)
  SELECT id, version, 'applied', $5, $4, $6, $7 FROM changed`;

/**
 * candidate.move — to another status. One we have not heard of is added with what is known: refusing it would make a
 * dead letter of a message that was merely faster than the application.
 * $1 id, $2 status, $3 interview, $4 at, $5 by, $6 note, $7 message
 */
export const MOVE = `
  WITH changed AS (
    INSERT INTO candidate AS known (id, status, interview_at, applied_at, changed_at, version)
    VALUES ($1, $2, $3, $4, $4, 1)
    ON CONFLICT (id) DO UPDATE
    SET status = $2, interview_at = COALESCE($3, known.interview_at),
        changed_at = GREATEST(known.changed_at, $4), version = known.version + 1
    WHERE known.status <> $2 OR known.interview_at IS DISTINCT FROM COALESCE($3, known.interview_at)
    RETURNING id, version
  )
  INSERT INTO candidate_step (candidate_id, step, status, by, at, note, message_id)
  SELECT id, version, $2, $5, $4, $6, $7 FROM changed`;
