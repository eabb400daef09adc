import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';

/** Plain SQL on the pool of the read API: a flood of readers stays among itself. */
@Injectable()
export class Reads {
  constructor(private readonly dataSource: DataSource) {}

  query<Row>(sql: string, parameters: readonly unknown[] = []): Promise<Row[]> {
    return this.dataSource.query(sql, parameters as unknown[]);
  }
}
