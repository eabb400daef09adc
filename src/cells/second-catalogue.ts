import pg from 'pg';
import type { Settings } from '../config/settings.ts';
import { closeClient } from '../database/close-client.ts';
import { firstServerOf } from '../database/connection.ts';
import { Primary } from '../database/primary.ts';
import { clientOf } from '../database/primary-client.ts';
import { CellRefused } from './cell-refused.ts';

const QUERY_TIMEOUT_MS = 5_000;
/** A database that was not migrated yet has no such table, and is no cell. */
const IS_CELL = `SELECT to_regclass('public.cell_self') IS NOT NULL AS known`;
const CATALOGUE = 'SELECT catalogue FROM public.cell_self';

/**
 * The home cell's database has no catalogue yet, so one would be made. If another cell belongs to one already, the URL of the
 * home cell points at the wrong database: messages accepted there would be found by no other replica.
 */
export async function refuseSecondCatalogue(
  settings: Pick<Settings, 'cells' | 'databaseConnectTimeout'>,
): Promise<void> {
  const [home, ...others] = settings.cells;
  const known = await Promise.all(
    others.map(({ name, url }) =>
      isInCatalogue(url, settings.databaseConnectTimeout).catch((error: Error) => {
        throw new CellRefused(
          `the cell "${name}" cannot be reached (${error.message}), and the database of "${home!.name}" has no catalogue yet: ` +
            'the first start needs all cells; if it is not the first, the URL of the first cell in CELLS is wrong',
        );
      }),
    ),
  );
  const member = others.find((_, index) => known[index]);
  if (!member) return;
  throw new CellRefused(
    `the cell "${member.name}" belongs to a catalogue, but the database of "${home!.name}" has none: ` +
      'the URL of the first cell in CELLS points at another database than that of the other replicas',
  );
}

async function isInCatalogue(url: string, connectMs: number): Promise<boolean> {
  const Client = clientOf(pg.Client, Primary.of(url));
  const client = new Client({
    connectionString: firstServerOf(url),
    application_name: 'sluice cells',
    connectionTimeoutMillis: connectMs,
    query_timeout: QUERY_TIMEOUT_MS,
  });
  client.on('error', () => undefined);
  try {
    await client.connect();
    const [row] = (await client.query<{ known: boolean }>(IS_CELL)).rows;
    return row!.known && (await client.query(CATALOGUE)).rows.length > 0;
  } finally {
    await closeClient(client);
  }
}
