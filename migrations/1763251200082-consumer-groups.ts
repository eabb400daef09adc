import type { MigrationInterface, QueryRunner } from 'typeorm';

export class ConsumerGroups1763251200082 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    /*
     * `generation` grows when members or topics of the group change; the partitions were last assigned for
     * `balanced`. A group is deleted for good, with its cursors; its dead letters stay readable as a topic.
     */
    await runner.query(`
      CREATE TABLE consumer_group (
        number        integer     GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        name          text COLLATE "C" NOT NULL UNIQUE CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,54}$'),
        definition    jsonb       NOT NULL,
        topics        text[]      NOT NULL CHECK (cardinality(topics) > 0),
        session_ms    integer     NOT NULL CHECK (session_ms > 0),
        max_in_flight integer     NOT NULL CHECK (max_in_flight > 0),
        attempts      smallint    NOT NULL CHECK (attempts > 0),
        takeover      text        NOT NULL CHECK (takeover IN ('drain', 'skip')),
        on_expired    text        NOT NULL CHECK (on_expired IN ('continue', 'stop')),
        generation    bigint      NOT NULL DEFAULT 1,
        balanced      bigint      NOT NULL DEFAULT 0,
        origin        text        NOT NULL CHECK (origin IN ('api', 'file')),
        created_at    timestamptz NOT NULL DEFAULT now(),
        created_by    text        NOT NULL,
        updated_at    timestamptz NOT NULL DEFAULT now(),
        updated_by    text        NOT NULL
      ) WITH (fillfactor = 50)`);
    // Alive until seen_at + the group's session, by the database's clock. `poll`: the last poll of the member that may wait.
    await runner.query(`
      CREATE TABLE group_member (
        group_number integer     NOT NULL,
        id           uuid        NOT NULL DEFAULT gen_random_uuid(),
        name         text,
        joined_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
        seen_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
        poll         uuid,
        PRIMARY KEY (group_number, id)
      ) WITH (fillfactor = 25, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000)`);
    /*
     * How far a group is in a partition: up to `committed` processed, up to `handed` handed out to the owner. A cursor with
     * a `bound` covers only the offsets from `start` to there: what a former owner still has (takeover "skip").
     * Up to `retry_to` messages were handed out before to members that died, `deaths` times.
     * Changed with every poll and commit: no further index, room for HOT.
     */
    await runner.query(`
      CREATE TABLE group_cursor (
        group_number integer  NOT NULL,
        topic        integer  NOT NULL,
        partition    smallint NOT NULL,
        start        bigint   NOT NULL,
        bound        bigint,
        committed    bigint   NOT NULL,
        handed       bigint   NOT NULL,
        owner        uuid,
        former_owner uuid,
        draining     boolean  NOT NULL DEFAULT false,
        fence        bigint   NOT NULL DEFAULT 0,
        deaths       smallint NOT NULL DEFAULT 0,
        retry_to     bigint   NOT NULL DEFAULT -1,
        PRIMARY KEY (group_number, topic, partition, start),
        CONSTRAINT group_cursor_order CHECK (start - 1 <= committed AND committed <= handed AND handed <= COALESCE(bound, handed))
      ) WITH (fillfactor = 25, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000)`);
    // Grows with every hand-over of a partition, in any group: the group's lock orders those of one partition.
    await runner.query('CREATE SEQUENCE group_fence');
    // The dead letters of groups. The primary key records each rejection once.
    await runner.query(`
      CREATE TABLE rejection (
        group_number integer     NOT NULL,
        topic        integer     NOT NULL,
        partition    smallint    NOT NULL,
        "offset"     bigint      NOT NULL,
        dead_topic   integer     NOT NULL,
        dead_offset  bigint      NOT NULL,
        reason       text        NOT NULL,
        attempts     smallint    NOT NULL,
        rejected_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
        status       text        NOT NULL DEFAULT 'dead' CHECK (status IN ('dead', 'revived', 'discarded')),
        ruled_at     timestamptz,
        ruled_by     text,
        PRIMARY KEY (group_number, topic, partition, "offset")
      )`);
    await runner.query('CREATE UNIQUE INDEX rejection_dead ON rejection (dead_topic, dead_offset)');
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP SEQUENCE group_fence');
    for (const table of ['rejection', 'group_cursor', 'group_member', 'consumer_group'])
      await runner.query(`DROP TABLE ${table}`);
  }
}
