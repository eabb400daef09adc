import { Injectable } from '@nestjs/common';
import type { Next } from '../../clock/loop.ts';
import { Loops } from '../../clock/loops.ts';
import { Database } from '../../database/database.ts';
import { Wakeups } from '../../lanes/wakeups.ts';
import { NEXT_DUE, WAKE_DUE } from './due.sql.ts';

const MAX_AT_ONCE = 1_000;
const MAX_REST_MS = 1_000;

/** Scheduled messages become ready at their dueAt, by the database's clock. */
@Injectable()
export class DueMessages {
  constructor(
    private readonly database: Database,
    private readonly wakeups: Wakeups,
    loops: Loops,
  ) {
    loops.run('inbox', 'inbox-due', MAX_REST_MS, () => this.pass());
  }

  private async pass(): Promise<Next> {
    const rows = await this.database.query<{ lane: number }>(WAKE_DUE, [MAX_AT_ONCE]);
    if (rows.length) this.wakeups.announce('inbox', new Set(rows.map(({ lane }) => lane)));
    if (rows.length === MAX_AT_ONCE) return 'again';
    const [next] = await this.database.query<{ ms: number }>(NEXT_DUE);
    return { afterMs: Math.max(1, Math.min(next?.ms ?? MAX_REST_MS, MAX_REST_MS)) };
  }
}
