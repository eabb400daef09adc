import { createHash } from 'node:crypto';
import { catchError, type Observable, tap } from 'rxjs';
import type { Loops } from '../clock/loops.ts';
import { serversOf } from '../config/database-url-variable.ts';
import type { Settings } from '../config/settings.ts';
import { connectionOptions } from '../database/connection.ts';
import type { Database } from '../database/database.ts';
import { mayWorkOnPrimary } from '../database/errors.ts';
import { readAt } from '../database/read-place.ts';
import type { StandbyRun } from '../database/standby-run.ts';
import type { Log } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { PrimaryTrail } from './primary-trail.ts';
import { Standby } from './standby.ts';
import { StandbyMetrics } from './standby-metrics.ts';

const PROBE_MS = 500;
/** A request that gets no connection to a standby within this time reads from the primary. */
const MAX_CONNECT_MS = 2_000;

interface Needs {
  readonly database: Database;
  readonly log: Log;
  readonly loops: Loops;
  readonly metrics: Metrics;
}

/**
 * The standbys of READ_DATABASE_URL. One is used while it follows the primary (it shows a mark that this replica wrote there
 * after the last failover) and is at most READ_MAX_LAG behind.
 */
export class Standbys {
  private readonly all: readonly Standby[];
  private readonly metrics: StandbyMetrics;
  private readonly log: Log;

  constructor(settings: Settings, schemas: readonly string[], { database, log, loops, metrics }: Needs) {
    this.log = log;
    const trail = new PrimaryTrail(database);
    const { readDatabaseUrl, databaseConnectTimeout, roles } = settings;
    const servers = readDatabaseUrl && roles.includes('api') ? serversOf(readDatabaseUrl)! : [];
    const limits = { ...settings, databaseConnectTimeout: Math.min(databaseConnectTimeout, MAX_CONNECT_MS) };
    const optionsOf = (url: string) => connectionOptions(url, limits, 'sluice read', schemas);
    this.all = servers.map((server) => new Standby(server, trail, settings.readMaxLag, optionsOf));
    this.metrics = new StandbyMetrics(metrics, this.all);
    if (servers.length === 0) return;
    loops.every('any', 'standbys', PROBE_MS, () => trail.observe());
    for (const standby of this.all)
      loops.every('any', `standby-${standby.address}`, PROBE_MS, () => this.probe(standby));
  }

  /**
   * The standby for this subject (such as a path), undefined: the primary. Repeated reads of a subject go to the same standby:
   * another one can be further behind, and a reader would see an older state than before. Unless requests wait there.
   */
  choose(subject: string): StandbyRun | undefined {
    if (this.all.length === 0) return undefined;
    const usable = this.all
      .flatMap(({ usable: run }) => run ?? [])
      .map((run) => ({ run, rank: rank(run, subject) }));
    usable.sort((a, b) => a.run.waiting - b.run.waiting || b.rank - a.rank);
    if (usable.length === 0) this.metrics.read('none-usable');
    return usable[0]?.run;
  }

  /** Reads from the standby; what it cannot finish is repeated on the primary. */
  read<T>(standby: StandbyRun | undefined, read: () => Observable<T>): Observable<T> {
    if (!standby) return read();
    return readAt(standby, read).pipe(
      tap({ complete: () => this.metrics.read('served') }),
      catchError((error: unknown) => {
        if (!mayWorkOnPrimary(error)) throw error;
        this.metrics.read('failed');
        // This runs in the context of the failure, where reads go to the standby.
        return readAt(undefined, read);
      }),
    );
  }

  /** The standby does not have in time what the caller wants to read: it is read from the primary. */
  isBehind(): undefined {
    this.metrics.read('behind');
  }

  async close(): Promise<void> {
    await Promise.all(this.all.map((standby) => standby.close()));
  }

  private async probe(standby: Standby): Promise<void> {
    const before = standby.judgement.reason;
    await standby.probe();
    const { reason } = standby.judgement;
    if (reason === before) return;
    const { address } = standby;
    if (reason === undefined)
      this.log.info({ event: 'database.standby-used', standby: address }, 'a standby serves reads');
    else
      this.log.warn(
        { event: 'database.standby-left-out', standby: address, reason },
        'a standby serves no reads',
      );
  }
}

/** Spreads subjects over the standbys, the same way in every replica. */
function rank({ address }: StandbyRun, subject: string): number {
  return createHash('md5').update(`${address} ${subject}`).digest().readUInt32BE();
}
