import { Module } from '@nestjs/common';
import { IsString } from 'class-validator';
import type { MigrationInterface, QueryRunner } from 'typeorm';
import {
  Defer,
  Denormalizer,
  type Message,
  type ReadModel,
  type ReadModelTransaction,
} from '../../src/contract/index.ts';

/*
 * From the source document, "Обработка события issuings-ai-checks":
 *  1. is the task overdue? — the engine: `expiresAt`
 *  2. count the checks with work status NEW
 *  3. two or more: put the event back and end
 *  4. else handle it
 */

export const AI_CHECKS = 'issuings-ai-checks';
export const ISSUED = 'issuings-issued';

class AiChecks {
  @IsString() triggerId: string;
  @IsString() applicationId: string;
}

@Denormalizer({ types: [AI_CHECKS], payload: AiChecks })
class AiChecksDenormalizer {
  async apply({ payload, id }: Message<AiChecks>, tx: ReadModelTransaction): Promise<void> {
    const { applicationId, triggerId } = payload;
    const count = `SELECT count(*)::integer AS fresh FROM issuing_check
                   WHERE application_id = $1 AND work_status = 'NEW'`;
    const [row] = await tx.query<{ fresh: number }>(count, [applicationId]);
    if (row!.fresh >= 2) throw new Defer('100ms', `${row!.fresh} checks still NEW`);
    await tx.query('INSERT INTO issuing_step VALUES (DEFAULT, $1, $2, $3)', [applicationId, triggerId, id]);
  }
}

@Denormalizer({ types: [ISSUED], payload: AiChecks })
class IssuedDenormalizer {
  async apply({ payload, id }: Message<AiChecks>, tx: ReadModelTransaction): Promise<void> {
    await tx.query('INSERT INTO issuing_step VALUES (DEFAULT, $1, $2, $3)', [
      payload.applicationId,
      payload.triggerId,
      id,
    ]);
  }
}

class IssuingChecks1763251300101 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE issuing_check (
        id             text PRIMARY KEY,
        application_id text NOT NULL,
        work_status    text NOT NULL CHECK (work_status IN ('NEW', 'DONE'))
      )`);
    await runner.query(`
      CREATE TABLE issuing_step (
        step           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        application_id text   NOT NULL,
        trigger_id     text   NOT NULL,
        message_id     text   NOT NULL
      )`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP TABLE issuing_step, issuing_check');
  }
}

@Module({ providers: [AiChecksDenormalizer, IssuedDenormalizer] })
class IssuingChecksModule {}

export const issuingChecks: ReadModel = {
  name: 'issuing_checks',
  module: IssuingChecksModule,
  entities: [],
  migrations: [IssuingChecks1763251300101],
};
