import pg from 'pg';
import type { NamedServer } from '../config/database-url-variable.ts';
import { formatDuration } from '../config/duration.ts';
import { closeClient } from '../database/close-client.ts';
import { probeOptions } from '../database/probe.ts';
import { StandbyRun } from '../database/standby-run.ts';
import type { PrimaryTrail } from './primary-trail.ts';

/** standbys.state — $1 token of the mark */
const STANDBY_STATE = `
  SELECT extract(epoch FROM pg_postmaster_start_time())::text AS run, pg_is_in_recovery() AS "isStandby",
         pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0') AS position,
         EXISTS (SELECT FROM standby_mark WHERE token = $1) AS "isMarked"`;

/** The row that STANDBY_STATE returns. */
interface StandbyState {
  readonly run: string;
  readonly isStandby: boolean;
  /** How far it has replayed the WAL. */
  readonly position: number | null;
  readonly isMarked: boolean;
}

const NO_PRIMARY_YET = 'the primary was not reached yet';

/** `reason`: why it is left out. */
interface Judgement {
  readonly reason?: string;
  readonly lagMs?: number;
  /** Of the mark that it was asked for. */
  readonly token?: string | undefined;
}

/** One server of READ_DATABASE_URL, probed again and again. */
export class Standby {
  readonly address: string;
  judgement: Judgement = { reason: NO_PRIMARY_YET };
  private client: pg.Client | undefined;
  private current: StandbyRun | undefined;

  constructor(
    private readonly server: NamedServer,
    private readonly trail: PrimaryTrail,
    private readonly maxLagMs: number,
    private readonly optionsOf: (url: string) => pg.PoolConfig,
  ) {
    this.address = server.address;
  }

  /** Undefined: it is left out. What it showed before the last failover does not count. */
  get usable(): StandbyRun | undefined {
    const { reason, token } = this.judgement;
    return reason === undefined && token === this.trail.token ? this.current : undefined;
  }

  async probe(): Promise<void> {
    const { token } = this.trail;
    try {
      const state = await this.ask(token);
      this.follow(state);
      this.judgement = { ...this.judge(state, token), token };
    } catch (error) {
      const { message, code } = error as Error & { code?: string };
      this.judgement = { reason: `it does not reply: ${message || code}` };
      this.endRun();
    }
  }

  async close(): Promise<void> {
    const { client, current } = this;
    await Promise.all([client && closeClient(client), current?.pool.end()]);
  }

  private async ask(token: string | undefined): Promise<StandbyState> {
    const client = this.client ?? new pg.Client(probeOptions(this.server.url));
    try {
      if (client !== this.client) await client.on('error', () => undefined).connect();
      this.client = client;
      const { rows } = await client.query(STANDBY_STATE, [token]);
      return { ...rows[0], position: rows[0].position === null ? null : Number(rows[0].position) };
    } catch (error) {
      this.client = undefined;
      void closeClient(client);
      throw error;
    }
  }

  private follow({ run }: StandbyState): void {
    if (this.current?.run === run) return;
    this.endRun();
    this.current = new StandbyRun(this.address, run, this.optionsOf(this.server.url));
  }

  private endRun(): void {
    this.current?.abort();
    this.current = undefined;
  }

  private judge({ isStandby, isMarked, position }: StandbyState, token: string | undefined): Judgement {
    if (!isStandby) return { reason: 'it is not a standby' };
    if (token === undefined) return { reason: NO_PRIMARY_YET };
    if (!isMarked || position === null)
      return {
        reason: 'it lacks what this replica wrote to the primary: it is behind, or follows another primary',
      };
    const lagMs = this.trail.lagMs(position);
    if (lagMs <= this.maxLagMs) return { lagMs };
    return { lagMs, reason: `it is more than ${formatDuration(this.maxLagMs)} behind` };
  }
}
