import { randomUUID } from 'node:crypto';
import type { Database } from '../database/database.ts';
import { PrimaryPositions } from './primary-positions.ts';

/**
 * standbys.primary — where the primary is in its WAL, and on which branch: a promotion begins another timeline, and another
 * cluster has another identifier.
 */
export const PRIMARY_POSITION = `
  SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint AS position,
         (SELECT system_identifier FROM pg_control_system()) || '/' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) AS branch`;

/** standbys.mark — $1 token. A replica writes its own again long before another one removes it. */
const WRITE_MARK = `
  WITH gone AS (DELETE FROM standby_mark WHERE written_at < clock_timestamp() - interval '1 day' AND token <> $1)
  INSERT INTO standby_mark (token) VALUES ($1) ON CONFLICT (token) DO UPDATE SET written_at = clock_timestamp()`;

/** It must not wait for a synchronous standby that is away, and is written again if a failover loses it. */
const WAIT_FOR_NO_STANDBY = 'SET LOCAL synchronous_commit = local';

const MARK_INTERVAL_MS = 3_600_000;

interface Position {
  readonly position: number;
  readonly branch: string;
}

interface Mark {
  readonly token: string;
  readonly branch: string;
  readonly writtenAtMs: number;
}

/**
 * What a standby must show. After a failover it may have what the new primary never got, and nothing that it says of itself
 * tells. So this replica writes a mark to each new primary: a standby that has it follows this primary, in this database.
 */
export class PrimaryTrail {
  private readonly positions = new PrimaryPositions();
  private mark: Mark | undefined;

  constructor(private readonly database: Database) {}

  /** Of the mark; undefined: none was written yet. */
  get token(): string | undefined {
    return this.mark?.token;
  }

  lagMs(position: number): number {
    return this.positions.lagMs(position, performance.now());
  }

  async observe(): Promise<void> {
    const [row] = await this.database.query<Position>(PRIMARY_POSITION);
    const { position, branch } = row!;
    if (this.mark?.branch !== branch) {
      this.mark = undefined;
      this.positions.clear();
    }
    this.positions.add(position, performance.now());
    if (!this.mark || performance.now() - this.mark.writtenAtMs > MARK_INTERVAL_MS) await this.write(branch);
  }

  private async write(branch: string): Promise<void> {
    const token = this.mark?.token ?? randomUUID();
    await this.database.transaction(async (tx) => {
      await Promise.all([tx.execute(WAIT_FOR_NO_STANDBY), tx.execute(WRITE_MARK, [token])]);
    });
    this.mark = { token, branch, writtenAtMs: performance.now() };
  }
}
