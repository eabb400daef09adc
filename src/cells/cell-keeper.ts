import type { Loop, Next } from '../clock/loop.ts';
import { Database } from '../database/database.ts';
import type { Log } from '../telemetry/logger.ts';
import type { Catalogue } from './catalogue.ts';
import type { CatalogueStore } from './catalogue-store.ts';
import type { Cell } from './cell.ts';
import { CellRefused } from './cell-refused.ts';
import {
  type CellIdentity,
  type DefinitionsCopy,
  HomeUnavailable,
  refuseOtherCell,
} from './definitions-copy.ts';
import type { Engine } from './engine.ts';
import { withinMs } from './within-ms.ts';

export interface KeeperOptions {
  readonly catalogueId: string;
  readonly catalogue: Catalogue;
  readonly store: CatalogueStore;
  /** Undefined for the home cell, which has them. */
  readonly definitions: DefinitionsCopy | undefined;
  readonly log: Log;
  /** Creates the engine of a cell whose database may be away; undefined if it runs already (the home cell). */
  readonly create: (() => Promise<Engine>) | undefined;
}

/** A database that does not reply to one small query within this time counts as away. */
const PING_MS = 5_000;

/** Starts a cell, finds out whether it is away, and keeps what it knows of the home cell up to date. */
export class CellKeeper {
  private fencedAt = -1;

  constructor(
    private readonly cell: Cell,
    private readonly options: KeeperOptions,
  ) {}

  /** Wakes the loop on a suspicion. */
  watch(loop: Loop): void {
    this.cell.onSuspicion(() => loop.wake());
  }

  /** Never throws: what keeps a cell from being up is its reason. */
  async pass(): Promise<Next> {
    const before = this.cell.state;
    try {
      const engine = this.cell.engine ?? (await this.start());
      await withinMs(PING_MS, this.keep(engine));
      this.cell.setUp();
    } catch (error) {
      const refused = error instanceof CellRefused;
      this.cell.setDown(refused ? 'refused' : 'away', reasonOf(error));
      this.cell.definitionsCurrent = false;
      if (before !== this.cell.state)
        this.options.log.error({ event: `cells.${this.cell.state}`, cell: this.cell.name, error }, DOWN);
    }
    if (before !== 'up' && this.cell.state === 'up')
      this.options.log.info({ event: 'cells.up', cell: this.cell.name }, 'a cell is up');
    return 'idle';
  }

  private async start(): Promise<Engine> {
    const engine = await this.options.create!();
    try {
      // Before anything runs: what is processed without the listeners would never be in them.
      await this.join(engine);
      await this.options.definitions?.bringTo(engine.nest, this.identity());
      await engine.nest.init();
      await engine.server.adapter.getInstance().ready();
    } catch (error) {
      await engine.nest.close();
      throw error;
    }
    this.cell.engine = engine;
    return engine;
  }

  private async join({ nest }: Engine): Promise<void> {
    const { store, catalogue } = this.options;
    const { version } = catalogue;
    const self = { ...this.identity(), name: this.cell.name };
    await store.join(nest.get(Database), self, catalogue.all());
    this.fencedAt = version;
  }

  private identity(): CellIdentity {
    const { catalogue, catalogueId } = this.options;
    const number = catalogue.numberOf(this.cell.name);
    if (number === undefined) throw new Error('the catalogue does not have this cell yet');
    return { catalogue: catalogueId, number };
  }

  /** One small query at least, by which an absence is noticed. */
  private async keep(engine: Engine): Promise<void> {
    const { catalogue, definitions, store } = this.options;
    if (this.fencedAt !== catalogue.version) {
      const { version } = catalogue;
      await store.fence(engine.nest.get(Database), this.identity().number, catalogue.all());
      this.fencedAt = version;
    }
    if (definitions) await this.keepDefinitions(engine, definitions);
    else {
      await refuseOtherCell(engine.nest.get(Database), this.identity());
      this.cell.definitionsCurrent = true;
    }
  }

  private async keepDefinitions({ nest }: Engine, definitions: DefinitionsCopy): Promise<void> {
    try {
      await definitions.bringTo(nest, this.identity());
    } catch (error) {
      // It was up all the time, so it has what was defined before the home cell went away.
      if (!(error instanceof HomeUnavailable && this.cell.state === 'up')) throw error;
      this.cell.definitionsCurrent = false;
      return;
    }
    if (!this.cell.definitionsCurrent) await definitions.refresh(nest);
    this.cell.definitionsCurrent = true;
  }
}

const DOWN = 'a cell cannot be used; posts of its keys get a 503 until it is back';

/** For operators: host names and reasons, never a password. */
function reasonOf(error: unknown): string {
  const { message, code, errors } = (error ?? {}) as { message?: string; code?: string; errors?: unknown[] };
  return message || code || (errors?.[0] as Error | undefined)?.message || String(error);
}
