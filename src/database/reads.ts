import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { FORCE_INDEX_PLANS } from './force-index-plans.ts';

/** Plain SQL on the pool of the read API: a flood of readers stays among itself. */
@Injectable()
export class Reads {
  constructor(private readonly dataSource: DataSource) {}

  query<Row>(sql: string, parameters: readonly unknown[] = []): Promise<Row[]> {
    return this.dataSource.query(sql, parameters as unknown[]);
  }

  /** One that goes straight to its rows, whatever is known of the table. */
  queryWithIndexPlans<Row>(sql: string, parameters: readonly unknown[]): Promise<Row[]> {
    return this.dataSource.transaction(async (manager) => {
      await manager.query(FORCE_INDEX_PLANS);
      return manager.query(sql, parameters as unknown[]);
    });
  }
}
