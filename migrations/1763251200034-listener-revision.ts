import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Every batch of messages asks for the last revision: it is found at the end of an index. */
export class ListenerRevision1763251200034 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query('CREATE INDEX listener_revision ON listener (revision)');
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP INDEX listener_revision');
  }
}
