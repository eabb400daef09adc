import type { Queries } from '../queries.ts';

/** The schedule of a run, with a tick every second. */
export const SCHEDULE = 'ticks';

/** What the operator did, by its own record. */
export interface Operated {
  /** Keys that it held, and may have released early. */
  readonly keys: ReadonlySet<string>;
  /** Times at which the schedule may have been paused; the last one ends when it is deleted. */
  readonly schedulePauses: readonly { readonly fromMs: number; readonly toMs: number }[];
}

/** A delivery that a replay made pending again. */
export interface ReplayedRow {
  readonly replay: number;
  readonly delivery: string;
  readonly createdAtMs: number;
}

/** What the operator did: its own record, and that of the database. */
export interface OperatorHistory extends Operated {
  readonly replayed: readonly ReplayedRow[];
  /** How often each row was a dead letter and no longer is, by a log of the table. */
  readonly restarted: readonly RowCount[];
  /** How often each row was revived or discarded, by the record of these actions. */
  readonly ruled: readonly RowCount[];
}

interface RowCount {
  readonly stage: 'inbox' | 'outbox';
  readonly position: number;
  readonly times: number;
}

/** Triggers of a fault run that write down every row that is no longer a dead letter. */
export const INSTALL_DEAD_LETTER_LOG = `
  CREATE TABLE chaos.restarted (stage text NOT NULL, position bigint NOT NULL);
  CREATE FUNCTION chaos.log_restart() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO chaos.restarted VALUES (TG_TABLE_NAME, NEW.position);
      RETURN NULL;
    END $$;
  ${['inbox', 'outbox']
    .map(
      (table) => `CREATE TRIGGER log_restart AFTER UPDATE ON ${table} FOR EACH ROW
        WHEN (OLD.status = 'dead' AND NEW.status <> 'dead') EXECUTE FUNCTION chaos.log_restart();`,
    )
    .join('\n')}`;

export const NOTHING_OPERATED: Operated = { keys: new Set(), schedulePauses: [] };

export async function readOperations(database: Queries, operated: Operated): Promise<OperatorHistory> {
  return {
    ...operated,
    replayed: await database.query<ReplayedRow>(
      `SELECT replay.id::int AS replay, outbox.id AS delivery, extract(epoch FROM replay.created_at)::float8 * 1000 AS "createdAtMs"
       FROM replay_delivery AS item JOIN replay ON replay.id = item.replay JOIN outbox ON outbox.position = item.position
       WHERE item.reopened_at IS NOT NULL`,
    ),
    restarted: await database.query<RowCount>(
      'SELECT stage, position::int, count(*)::int AS times FROM chaos.restarted GROUP BY stage, position',
    ),
    ruled: await database.query<RowCount>(
      `SELECT stage, position::int, count(*)::int AS times FROM ruling_item WHERE outcome = 'done' GROUP BY stage, position`,
    ),
  };
}

/** Replays, revives and discards that are not over. */
export const UNFINISHED_OPERATIONS = `
  (SELECT count(*) FROM ruling WHERE done_at IS NULL)
  + (SELECT count(*) FROM replay WHERE done_at IS NULL OR select_from IS NOT NULL)`;
