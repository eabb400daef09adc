import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { STRAIGHT_PLANS } from './straight-plans.ts';

/** Plain SQL on the pool of the read API: a flood of readers stays among itself. */
@Injectable()
export class Reads {
  constructor(private readonly dataSource: DataSource) {}

  query<Row>(sql: string, parameters: readonly unknown[] = []): Promise<Row[]> {
    return this.dataSource.query(sql, parameters as unknown[]);
  }

  /** One that goes straight to its rows, whatever is known of the table. */
  straight<Row>(sql: string, parameters: readonly unknown[]): Promise<Row[]> {
    return this.dataSource.transaction(async (manager) => {
      await manager.query(STRAIGHT_PLANS);
      return manager.query(sql, parameters as unknown[]);
    });
  }
}
