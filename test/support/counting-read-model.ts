import { Injectable, Module } from '@nestjs/common';
import type { MigrationInterface, QueryRunner } from 'typeorm';
import { Denormalizer } from '../../src/contract/denormalizer.ts';
import type { Message } from '../../src/contract/message.ts';
import type { ReadModel } from '../../src/contract/read-model.ts';
import type { ReadModelTransaction } from '../../src/contract/read-model-transaction.ts';

class CreateApplied1700000000000 implements MigrationInterface {
  name = 'CreateApplied1700000000000';

  async up(runner: QueryRunner): Promise<void> {
    await runner.query('CREATE TABLE applied (id text NOT NULL)');
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP TABLE applied');
  }
}

@Denormalizer({ types: ['counted/x'] })
@Injectable()
class Counting {
  async apply({ id }: Message, tx: ReadModelTransaction): Promise<void> {
    await tx.query('INSERT INTO applied VALUES ($1)', [id]);
  }
}

@Module({ providers: [Counting] })
class CountingModule {}

/** Writes one row per application of a message, without a unique constraint: a second application shows. */
export const countingReadModel: ReadModel = {
  entities: [],
  migrations: [CreateApplied1700000000000],
  module: CountingModule,
};
