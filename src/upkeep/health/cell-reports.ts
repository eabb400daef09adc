/** Injection token of the CellReports; nothing is injected without CELLS. */
export const CELL_REPORTS = Symbol('CellReports');

/** What health checks and metrics say about the cells, as this replica sees them. */
export interface CellReports {
  /** The state of each cell, by its name. */
  states(): Readonly<Record<string, 'starting' | 'up' | 'away' | 'refused'>>;
  /** The metrics of all cells, each with the label `cell`. */
  metrics(): Promise<Buffer>;
}
