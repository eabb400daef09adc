import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * Moves of slots between cells.
 *
 * In the home cell: `cell_move`, one row for each move of a slot. Its mover renews `mover_until`; afterwards another replica
 * undoes the move, or finishes it. `closed` is the pause: posts of the slot wait.
 *
 * In every cell: `cell_marker` says how far a move has got there, and so decides it. In the cell that the slot leaves: `cell_parcel`
 * and `cell_parcel_row`, rows that were taken out of their tables and have not arrived yet; each row is the texts of its columns.
 */
export class CellMoves1763251200270 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE cell_move (
        id          uuid        PRIMARY KEY DEFAULT gen_random_uuid(),
        slot        smallint    NOT NULL CHECK (slot BETWEEN 0 AND 255),
        from_cell   smallint    NOT NULL,
        to_cell     smallint    NOT NULL,
        state       text        NOT NULL DEFAULT 'waiting'
          CHECK (state IN ('waiting', 'preparing', 'closed', 'cleaning', 'done', 'undone')),
        mover       uuid,
        mover_until timestamptz NOT NULL DEFAULT '-infinity',
        replica     text,
        rows        bigint,
        error       text,
        created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
        created_by  text        NOT NULL,
        closed_at   timestamptz,
        opened_at   timestamptz,
        ended_at    timestamptz,
        CONSTRAINT cell_move_ended CHECK ((state IN ('done', 'undone')) = (ended_at IS NOT NULL))
      )`);
    await runner.query('CREATE UNIQUE INDEX cell_move_open ON cell_move (slot) WHERE ended_at IS NULL');
    await runner.query('CREATE INDEX cell_move_ended_at ON cell_move (ended_at)');
    await runner.query(`
      ALTER TABLE cell_marker ADD COLUMN outcome text NOT NULL DEFAULT 'open'
        CHECK (outcome IN ('open', 'arrived', 'undone'))`);
    await runner.query(`
      CREATE TABLE cell_parcel (
        move    uuid     NOT NULL,
        parcel  smallint NOT NULL,
        name    text     NOT NULL,
        columns text[]   NOT NULL,
        PRIMARY KEY (move, parcel)
      )`);
    await runner.query(`
      CREATE TABLE cell_parcel_row (
        move    uuid     NOT NULL,
        parcel  smallint NOT NULL,
        ordinal bigint   GENERATED ALWAYS AS IDENTITY,
        texts   text[]   NOT NULL,
        PRIMARY KEY (move, parcel, ordinal)
      )`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('ALTER TABLE cell_marker DROP COLUMN outcome');
    for (const table of ['cell_parcel_row', 'cell_parcel', 'cell_move'])
      await runner.query(`DROP TABLE ${table}`);
  }
}
