import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * Several databases behind one Sluice. All tables stay empty without CELLS, and then the trigger does not exist.
 *
 * In the home cell: `cell` and `cell_slot`, the catalogue. A slot is a lane of the inbox. `version` of a slot grows with each
 * of its changes. While a slot moves (`moving_to`), its mover renews `mover_until`; afterwards any replica undoes the move.
 *
 * In every cell: `cell_self` says which cell of which catalogue this is, and which definitions were copied here last.
 * `cell_fence` says which slots may be written to here. `cell_marker` says how far a move of a slot has got here.
 */
export class Cells1763251200170 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE cell (
        number    smallint    PRIMARY KEY CHECK (number BETWEEN 0 AND 255),
        name      text COLLATE "C" NOT NULL UNIQUE,
        joined_at timestamptz NOT NULL DEFAULT now()
      )`);
    await runner.query(`
      CREATE TABLE cell_slot (
        slot        smallint PRIMARY KEY CHECK (slot BETWEEN 0 AND 255),
        cell        smallint NOT NULL,
        version     bigint   NOT NULL,
        moving_to   smallint,
        mover       uuid,
        mover_until timestamptz,
        CONSTRAINT cell_slot_moving CHECK (
          (moving_to IS NULL) = (mover IS NULL) AND (moving_to IS NULL) = (mover_until IS NULL))
      )`);
    await runner.query(`
      CREATE TABLE cell_self (
        one         boolean  PRIMARY KEY DEFAULT true CHECK (one),
        catalogue   uuid     NOT NULL,
        number      smallint NOT NULL,
        name        text     NOT NULL,
        definitions text     NOT NULL DEFAULT ''
      )`);
    await runner.query(`
      CREATE TABLE cell_fence (
        slot    smallint PRIMARY KEY CHECK (slot BETWEEN 0 AND 255),
        open    boolean  NOT NULL,
        version bigint   NOT NULL
      )`);
    await runner.query(
      'CREATE TABLE cell_marker (id uuid PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())',
    );
    /*
     * Refuses messages of slots that are not open here, whoever writes them. Whoever closes a slot takes the lock exclusively:
     * it waits for the transactions that have written, and later ones see the slot closed (each statement of the function has
     * a snapshot of its own). Alerts of the service belong to the cell in which they are raised.
     */
    await runner.query(`
      CREATE FUNCTION cell_fence_inbox() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        PERFORM pg_advisory_xact_lock_shared(hashtextextended('sluice.cell-fence', 0));
        IF EXISTS (
          SELECT FROM added LEFT JOIN cell_fence ON cell_fence.slot = added.lane
          WHERE cell_fence.open IS NOT TRUE AND added.source <> 'urn:sluice:alerts'
        ) THEN
          RAISE EXCEPTION 'a message belongs to another cell' USING ERRCODE = 'SC001';
        END IF;
        RETURN NULL;
      END $$`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP TRIGGER IF EXISTS cell_fence ON inbox');
    await runner.query('DROP FUNCTION cell_fence_inbox()');
    for (const table of ['cell_marker', 'cell_fence', 'cell_self', 'cell_slot', 'cell'])
      await runner.query(`DROP TABLE ${table}`);
  }
}
