import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Two identical payloads can be different texts, so the hash is that of the value; some texts are no valid jsonb. */
const PAYLOAD_HASH = String.raw`
  CASE WHEN position('\u' IN payload::text) > 0 AND payload::text ~* '\\u(0000|d[89ab])'
       THEN hashtextextended(payload::text, 0) ELSE jsonb_hash_extended(payload::jsonb, 0) END`;

export class History1763251200120 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    /*
     * Messages beyond the retention of the inbox, in compressed blocks of one lane group (lane / 16). A message is either in
     * the inbox or in a block. `first_…` and `last_…` are the ends of the block in the order of application, `low_position`
     * and `high_position` those of its positions. Blocks may overlap. A body is compressed already: EXTERNAL.
     * `from_at` and `to_at`: when the first and the last of its messages was received.
     */
    await runner.query(`
      CREATE TABLE archive_block (
        id             bigint      GENERATED ALWAYS AS IDENTITY,
        written_at     timestamptz NOT NULL DEFAULT now(),
        lane_group     smallint    NOT NULL CHECK (lane_group BETWEEN 0 AND 15),
        first_applied  bigint      NOT NULL,
        first_position bigint      NOT NULL,
        last_applied   bigint      NOT NULL,
        last_position  bigint      NOT NULL,
        low_position   bigint      NOT NULL,
        high_position  bigint      NOT NULL,
        types          text[]      NOT NULL,
        count          integer     NOT NULL CHECK (count > 0),
        bytes          bigint      NOT NULL,
        from_at        timestamptz NOT NULL,
        to_at          timestamptz NOT NULL,
        body           bytea       NOT NULL,
        PRIMARY KEY (id, written_at)
      ) PARTITION BY RANGE (written_at)`);
    await runner.query('ALTER TABLE archive_block ALTER COLUMN body SET STORAGE EXTERNAL');
    await runner.query(
      'CREATE INDEX archive_block_order ON archive_block (lane_group, last_applied, last_position)',
    );
    await runner.query('CREATE INDEX archive_block_position ON archive_block (lane_group, high_position)');
    await runner.query(`
      CREATE FUNCTION archive_partition(month timestamptz) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
      DECLARE
        start date := date_trunc('month', month AT TIME ZONE 'UTC')::date;
        name text := 'archive_block_' || to_char(start, 'YYYY_MM');
      BEGIN
        IF to_regclass(name) IS NULL THEN
          EXECUTE format('CREATE TABLE %I PARTITION OF archive_block FOR VALUES FROM (%L) TO (%L)', name,
                         start || ' 00:00+00', (start + interval '1 month')::date || ' 00:00+00');
        END IF;
      END $$`);
    await runner.query(`SELECT archive_partition(now()), archive_partition(now() + interval '1 month')`);
    // For a month whose partition was not created in time.
    await runner.query('CREATE TABLE archive_block_other PARTITION OF archive_block DEFAULT');
    /*
     * The identities of archived messages, as hashes: 96 bits for (source, id), 32 for the content.
     * `place` is position * 16 + lane group. Changed whenever a message is archived: one index only.
     */
    await runner.query(`
      CREATE TABLE archive_id (
        id       bigint  NOT NULL,
        place    bigint  NOT NULL,
        identity integer NOT NULL,
        content  integer NOT NULL
      ) WITH (autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000)`);
    await runner.query('CREATE INDEX archive_id_id ON archive_id (id)');
    // Their results are stored: they must never change.
    await runner.query(`
      CREATE FUNCTION archive_identity(source text, id text) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE
      RETURN (hashtextextended(source || chr(1) || id, 1) >> 32)::integer`);
    await runner.query(`
      CREATE FUNCTION archive_content(type text, key text, payload json, headers jsonb, occurred_at timestamptz,
                                      due_at timestamptz, expires_at timestamptz)
      RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE
      RETURN (hash_record_extended(ROW(type, key, ${PAYLOAD_HASH},
                COALESCE(headers, '{}') - '{traceparent,tracestate}'::text[], occurred_at, due_at, expires_at), 0) >> 32)::integer`);
    /*
     * Messages of this type that were received until then are not all in history: they were removed without being archived,
     * or their time in history was over. Type '*': any type.
     */
    await runner.query(`
      CREATE TABLE history_gap (
        type text        PRIMARY KEY,
        "to" timestamptz NOT NULL
      ) WITH (fillfactor = 50)`);
    // What was removed before this migration is not known.
    await runner.query(`
      INSERT INTO history_gap (type, "to")
      SELECT '*', now() FROM pg_sequences
      WHERE schemaname = current_schema() AND sequencename = 'inbox_position_seq' AND last_value IS NOT NULL`);
    // The last failure of each kind of work, until it succeeds again.
    await runner.query(`
      CREATE TABLE history_failure (
        work  text        PRIMARY KEY CHECK (work IN ('archive', 'upkeep')),
        since timestamptz NOT NULL DEFAULT clock_timestamp(),
        error text        NOT NULL
      )`);
  }

  /** What is in history is lost with it. */
  async down(runner: QueryRunner): Promise<void> {
    for (const table of ['history_failure', 'history_gap', 'archive_id', 'archive_block'])
      await runner.query(`DROP TABLE ${table}`);
    await runner.query('DROP FUNCTION archive_content');
    await runner.query('DROP FUNCTION archive_identity');
    await runner.query('DROP FUNCTION archive_partition');
  }
}
