import type { MigrationInterface, QueryRunner } from 'typeorm';

export class Topics1763251200081 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    /*
     * A topic is a log of messages in partitions. A deleted topic keeps its row until its entries are removed: one that is
     * created again under the same name is another topic, with another number. `revision` grows with every change of any
     * topic, in commit order (writers take turns, as those of listeners).
     */
    await runner.query(`
      CREATE TABLE topic (
        number       integer     GENERATED ALWAYS AS IDENTITY PRIMARY KEY CHECK (number BETWEEN 1 AND 8388607),
        name         text COLLATE "C" NOT NULL CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$'),
        revision     bigint      NOT NULL,
        partitions   smallint    NOT NULL CHECK (partitions BETWEEN 1 AND 256),
        types        text[]      NOT NULL,
        retention_ms bigint      CHECK (retention_ms > 0),
        kind         text        NOT NULL DEFAULT 'topic' CHECK (kind IN ('topic', 'dead', 'revived')),
        origin       text        NOT NULL CHECK (origin IN ('api', 'file', 'group')),
        created_at   timestamptz NOT NULL DEFAULT now(),
        created_by   text        NOT NULL,
        updated_at   timestamptz NOT NULL DEFAULT now(),
        updated_by   text        NOT NULL,
        deleted_at   timestamptz
      )`);
    await runner.query('CREATE UNIQUE INDEX topic_name ON topic (name) WHERE deleted_at IS NULL');
    /*
     * Offsets are counted here, not by a sequence: the writer keeps the row locked until its commit, so an offset is never
     * visible before a lower one, and a rollback leaves no hole. Changed with every batch: no further index, room for HOT.
     */
    await runner.query(`
      CREATE TABLE topic_partition (
        topic     integer  NOT NULL,
        partition smallint NOT NULL,
        earliest  bigint   NOT NULL DEFAULT 0,
        next      bigint   NOT NULL DEFAULT 0,
        PRIMARY KEY (topic, partition)
      ) WITH (fillfactor = 25, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000)`);
    // Points to the message in the inbox, which is kept as long as an entry points to it.
    await runner.query(`
      CREATE TABLE topic_entry (
        topic     integer     NOT NULL,
        partition smallint    NOT NULL,
        "offset"  bigint      NOT NULL,
        message   bigint      NOT NULL,
        bytes     integer     NOT NULL,
        at        timestamptz NOT NULL DEFAULT clock_timestamp(),
        PRIMARY KEY (topic, partition, "offset")
      ) WITH (autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000,
              autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000)`);
    await runner.query('CREATE INDEX topic_entry_message ON topic_entry (message)');
  }

  async down(runner: QueryRunner): Promise<void> {
    for (const table of ['topic_entry', 'topic_partition', 'topic'])
      await runner.query(`DROP TABLE ${table}`);
  }
}
