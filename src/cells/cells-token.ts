/** Injection token of the Cells. */
export const CELLS = Symbol('Cells');
