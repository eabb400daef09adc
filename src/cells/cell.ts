import { Problem, retryAfter } from '../http/problems.ts';
import type { Engine } from './engine.ts';

/** `refused`: its database says that it is another cell; `away`: it cannot be reached, or does not start. */
export type CellState = 'starting' | 'up' | 'away' | 'refused';

/** One cell as this replica sees it. */
export class Cell {
  state: CellState = 'starting';
  /** Why it is not up. */
  reason: string | null = null;
  /** Whether the definitions of the home cell are known there. */
  definitionsCurrent = false;
  /** Set when it was started once; it stays while its database is away. */
  engine: Engine | undefined;
  private readonly suspicionHandlers: (() => void)[] = [];

  constructor(
    readonly name: string,
    readonly url: string,
    /** Whether this replica processes its messages. */
    readonly served: boolean,
  ) {}

  /** Throws a 503 unless it is up. */
  get running(): Engine {
    if (this.state === 'up' && this.engine) return this.engine;
    throw cellAway(this.name, this.reason);
  }

  setUp(): void {
    this.state = 'up';
    this.reason = null;
  }

  setDown(state: 'away' | 'refused', reason: string): void {
    this.state = state;
    this.reason = reason;
  }

  /** The handler is called when a request found its database away. */
  onSuspicion(handler: () => void): void {
    this.suspicionHandlers.push(handler);
  }

  suspect(): void {
    for (const check of this.suspicionHandlers) check();
  }
}

export function cellAway(name: string, reason: string | null): Problem {
  const why = reason === null ? 'is starting' : 'is away';
  return new Problem(
    'cell-away',
    `The cell "${name}" ${why}; other cells are not affected. Retry later.`,
    retryAfter(1),
  );
}

/** The key is in neither cell for a moment. */
export function slotMoves(): Problem {
  return new Problem('cell-away', 'The key is being moved to another cell. Retry later.', retryAfter(1));
}
