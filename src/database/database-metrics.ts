import { Injectable } from '@nestjs/common';
import type { Pool } from 'pg';
import { DataSource } from 'typeorm';
import { Metrics } from '../telemetry/metrics.ts';
import { Database } from './database.ts';

/** Metrics of both pools: the engine's and the read API's. */
@Injectable()
export class DatabaseMetrics {
  constructor(metrics: Metrics, database: Database, dataSource: DataSource) {
    const pools: readonly (readonly [name: string, pool: () => Pool])[] = [
      ['engine', () => database.pool],
      ['read', () => (dataSource.driver as unknown as { master: Pool }).master],
    ];
    metrics.gauge('database_connections', 'Open connections of each pool, by state (idle or used).', {
      labelNames: ['pool', 'state'],
      collect() {
        for (const [pool, of] of pools) {
          this.set({ pool, state: 'idle' }, of().idleCount);
          this.set({ pool, state: 'used' }, of().totalCount - of().idleCount);
        }
      },
    });
    metrics.gauge('database_connections_awaited', 'Callers that wait for a connection of each pool.', {
      labelNames: ['pool'],
      collect() {
        for (const [pool, of] of pools) this.set({ pool }, of().waitingCount);
      },
    });
  }
}
