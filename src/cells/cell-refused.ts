/** A cell cannot be used as CELLS says; the message is one line with the next step. */
export class CellRefused extends Error {}
