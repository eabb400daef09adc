/** marker.enter — locks it until the transaction ends. $1 move */
export const ADD_MARKER = 'INSERT INTO cell_marker (id) VALUES ($1) ON CONFLICT DO NOTHING';
export const LOCK_MARKER = 'SELECT outcome FROM cell_marker WHERE id = $1 FOR UPDATE';

/** marker.set — $1 move, $2 outcome */
export const SET_MARKER = `UPDATE cell_marker SET outcome = $2 WHERE id = $1 AND outcome = 'open'`;
