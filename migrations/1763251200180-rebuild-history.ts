import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * How far a rebuild has read history, by lane group: all messages of blocks up to this place are applied, or were not for this
 * read model (`passed`). Groups without blocks have no row. `complete`: to the end; from then on the group is read from the
 * inbox only.
 */
export class RebuildHistory1763251200180 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE rebuild_history (
        rebuild    bigint   NOT NULL REFERENCES rebuild,
        lane_group smallint NOT NULL CHECK (lane_group BETWEEN 0 AND 15),
        applied    bigint   NOT NULL DEFAULT 0,
        position   bigint   NOT NULL DEFAULT 0,
        passed     bigint   NOT NULL DEFAULT 0,
        complete   boolean  NOT NULL DEFAULT false,
        PRIMARY KEY (rebuild, lane_group)
      ) WITH (fillfactor = 50)`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP TABLE rebuild_history');
  }
}
