import { Module, type Type } from '@nestjs/common';
import type { MigrationInterface, QueryRunner } from 'typeorm';
import type { ReadModel } from '../../src/contract/read-model.ts';

/** A read model of one table, such as `ledger (key text, n int)`, and its denormalizers. */
export function oneTableReadModel(table: string, denormalizers: readonly Type[]): ReadModel {
  class Table1763251300900 implements MigrationInterface {
    async up(runner: QueryRunner): Promise<void> {
      await runner.query(`CREATE TABLE ${table}`);
    }
    async down(runner: QueryRunner): Promise<void> {
      await runner.query(`DROP TABLE ${table.slice(0, table.indexOf('('))}`);
    }
  }

  @Module({ providers: [...denormalizers] })
  class OneTableModule {}

  return { name: 'tested', entities: [], migrations: [Table1763251300900], module: OneTableModule };
}
