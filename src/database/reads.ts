import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { FORCE_INDEX_PLANS } from './force-index-plans.ts';

/** Plain SQL on the pool of the read API: many readers can only slow down each other, not the engine. */
@Injectable()
export class Reads {
  constructor(private readonly dataSource: DataSource) {}

  query<Row>(sql: string, parameters: readonly unknown[] = []): Promise<Row[]> {
    return this.dataSource.query(sql, parameters as unknown[]);
  }

  /** For a statement that finds its rows by an index also if the table's statistics are wrong. */
  queryWithIndexPlans<Row>(sql: string, parameters: readonly unknown[]): Promise<Row[]> {
    return this.dataSource.transaction(async (manager) => {
      await manager.query(FORCE_INDEX_PLANS);
      return manager.query(sql, parameters as unknown[]);
    });
  }
}
