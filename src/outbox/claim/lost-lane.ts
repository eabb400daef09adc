/** In the record of an attempt: what the next holder of a lane knows of what was in flight, and what the last one knows. */
export const OUTCOME_UNKNOWN = 'outcome unknown: its replica died or was cut off';
export const LANE_LOST = 'its replica had lost the lane by then';
export const CLAIM_LOST = 'its claim was gone by then';
