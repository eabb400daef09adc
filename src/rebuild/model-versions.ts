import { Injectable } from '@nestjs/common';
import { Loops } from '../clock/loops.ts';
import { Database } from '../database/database.ts';
import { RUNS } from './model-versions.sql.ts';
import { ReadModelRegistry } from './read-model-registry.ts';

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
