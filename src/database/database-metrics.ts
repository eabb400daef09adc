import { Injectable } from '@nestjs/common';
import type { Pool } from 'pg';
import { DataSource } from 'typeorm';
import { Metrics } from '../telemetry/metrics.ts';
import { Database } from './database.ts';

/** Both pools: the engine's, and that of the read API. */
@Injectable()
export class DatabaseMetrics {
  constructor(metrics: Metrics, database: Database, dataSource: DataSource) {
    const pools: readonly (readonly [name: string, pool: () => Pool])[] = [
      ['engine', () => database.pool],
      ['read', () => (dataSource.driver as unknown as { master: Pool }).master],
    ];
    metrics.gauge({
      name: 'database_connections',
      help: 'Connections of each pool, by whether they are used.',
      labelNames: ['pool', 'state'],
      collect() {
        for (const [pool, of] of pools) {
          this.set({ pool, state: 'idle' }, of().idleCount);
          this.set({ pool, state: 'used' }, of().totalCount - of().idleCount);
        }
      },
    });
    metrics.gauge({
      name: 'database_connections_awaited',
      help: 'How many wait for a connection of each pool.',
      labelNames: ['pool'],
      collect() {
        for (const [pool, of] of pools) this.set({ pool }, of().waitingCount);
      },
    });
  }
}
