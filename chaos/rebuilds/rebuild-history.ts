import type { Queries } from '../queries.ts';

/** What a reader got, once for each link of a key. */
export interface SeenLink {
  readonly key: string;
  readonly n: number;
  readonly hash: string;
}

/** What was rebuilt during a run, by those who took part. */
export interface Rebuilt {
  readonly seen: readonly SeenLink[];
  /** Reads that found less than a read before them. */
  readonly lost: readonly string[];
  /** Rebuilds that stopped although no message may fail, or did not go on. */
  readonly stopped: readonly string[];
}

export const NOTHING_REBUILT: Rebuilt = { seen: [], lost: [], stopped: [] };

interface ComparedRow {
  readonly id: number;
  readonly tables: readonly {
    readonly table: string;
    readonly onlyOld: number;
    readonly onlyNew: number;
    readonly different: number;
  }[];
}

export interface RebuildHistory extends Rebuilt {
  /** How many messages history answers duplicates for. */
  readonly identities: number;
  /** The schema that is kept beside the living one, and follows it; undefined: there is none. */
  readonly kept: readonly SeenLink[] | undefined;
  /** Every comparison of a rebuild with the living model. */
  readonly compared: readonly ComparedRow[];
}

export async function readRebuilds(
  database: Queries,
  rebuilt: Rebuilt,
  identities: number,
): Promise<RebuildHistory> {
  const following = await database.query(`SELECT FROM rebuild WHERE status = 'ready'`);
  return {
    ...rebuilt,
    identities,
    kept:
      following.length > 0 ? await database.query<SeenLink>('SELECT * FROM chain__next.chain') : undefined,
    compared: await database.query<ComparedRow>(
      `SELECT id::int, diff->'tables' AS tables FROM rebuild WHERE diff IS NOT NULL ORDER BY id`,
    ),
  };
}

/** Rebuilds that have something to do: their work, or to follow the living schema. */
export const UNFINISHED_REBUILDS = `
  (SELECT count(*) FROM rebuild WHERE status IN ('building', 'replaying', 'comparing', 'switching'))
  + (SELECT count(*) FROM rebuild JOIN rebuild_lane AS lane ON lane.rebuild = rebuild.id
     WHERE rebuild.status = 'ready' AND EXISTS (
       SELECT FROM inbox WHERE inbox.lane = lane.lane AND settled_at IS NOT NULL AND lapsed_at IS NULL
         AND (COALESCE(inbox.applied, 0), inbox.position) > (lane.applied, lane.position)))`;
