import { Injectable } from '@nestjs/common';
import { Loops } from '../clock/loops.ts';
import { Database } from '../database/database.ts';
import { ReadModelRegistry } from './read-model-registry.ts';

/** What this replica runs; removes what nobody has run for an hour. $1 models, $2 versions, $3 migrations as JSON */
export const RUNS = `
  WITH gone AS (DELETE FROM read_model_version WHERE seen_at < clock_timestamp() - interval '1 hour')
  INSERT INTO read_model_version (model, version, migrations)
  SELECT model, version, ARRAY(SELECT jsonb_array_elements_text(migrations)) FROM unnest($1::text[], $2::text[], $3::jsonb[]) AS runs(model, version, migrations)
  ORDER BY model ON CONFLICT (model, version, migrations) DO UPDATE SET seen_at = clock_timestamp()`;

const INTERVAL_MS = 5_000;

/** Makes known which versions of the read models this replica can rebuild: if none can, the rebuild says so. */
@Injectable()
export class ModelVersions {
  constructor(
    private readonly database: Database,
    private readonly registry: ReadModelRegistry,
    loops: Loops,
  ) {
    loops.every('inbox', 'read-model-versions', INTERVAL_MS, () => this.announce());
  }

  async announce(): Promise<void> {
    const models = this.registry.names.map((name) => this.registry.find(name)!);
    await this.database.execute(RUNS, [
      models.map(({ name }) => name),
      models.map(({ version }) => version),
      models.map(({ migrations }) => JSON.stringify(migrations)),
    ]);
  }
}
