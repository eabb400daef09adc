import type { DynamicModule } from '@nestjs/common';
import type { Loop } from '../clock/loop.ts';
import { Loops } from '../clock/loops.ts';
import { type Settings, SettingsError } from '../config/settings.ts';
import { Database } from '../database/database.ts';
import { Callers } from '../http/session/callers.ts';
import type { OwnLanes } from '../inbox/own-lanes.ts';
import { FreshText } from '../telemetry/fresh-text.ts';
import type { Log } from '../telemetry/logger.ts';
import { Metrics } from '../telemetry/metrics.ts';
import { Readiness } from '../upkeep/health/readiness.ts';
import { Catalogue } from './catalogue.ts';
import { CatalogueStore } from './catalogue-store.ts';
import { Cell } from './cell.ts';
import { CellKeeper } from './cell-keeper.ts';
import { addCellMetrics, metricsOfAll } from './cell-metrics.ts';
import { CellsModule } from './cells.module.ts';
import type { CellsView } from './cells-view.ts';
import { DefinitionsCopy } from './definitions-copy.ts';
import type { Engine, EngineFactory } from './engine.ts';
import { FrontDoor } from './front-door.ts';
import { MoveMetrics } from './moves/move-metrics.ts';
import { SlotMover } from './moves/slot-mover.ts';
import { PostRouter } from './post-router.ts';
import { refuseSecondCatalogue } from './second-catalogue.ts';

const KEEP_MS = 1_000;
/** A slot is not moved while a delivery of it is in flight; one that takes longer has to be waited for by an operator. */
const MAX_QUIET_MS = 60_000;

/** All cells of this replica: an engine for each, one front door, and the catalogue that says which cell has which slot. */
export class Cells implements CellsView {
  readonly all: readonly Cell[];
  readonly home: Cell;
  readonly settingsOfHome: Settings;
  readonly catalogue: Catalogue;
  private store!: CatalogueStore;
  private catalogueId!: string;
  private readonly loops: Loop[] = [];
  private readonly router: PostRouter;
  private readonly metrics = new FreshText(() => metricsOfAll(this.all));
  private readonly frontDoor = new FrontDoor(this);

  constructor(
    private readonly settings: Settings,
    private readonly log: Log,
    private readonly engines: EngineFactory,
  ) {
    const { cells, cellWorkers } = settings;
    this.all = cells.map(
      ({ name, url }) => new Cell(name, url, cellWorkers.length === 0 || cellWorkers.includes(name)),
    );
    this.home = this.all[0]!;
    this.settingsOfHome = this.settingsOf(this.home);
    this.catalogue = new Catalogue({ read: () => this.store.read() });
    this.router = new PostRouter(this.catalogue, (number) => this.byNumber(number));
  }

  /** The names of all cells, the home cell first. */
  get names(): readonly string[] {
    return this.all.map(({ name }) => name);
  }

  byName(name: string): Cell | undefined {
    return this.all.find((cell) => cell.name === name);
  }

  byNumber(number: number): Cell | undefined {
    return this.byName(this.catalogue.nameOf(number));
  }

  homeModule(): DynamicModule {
    return CellsModule.home(this, this.router, this.lanesOf(this.home), {
      states: () => Object.fromEntries(this.all.map(({ name, state }) => [name, state])),
      metrics: () => this.metrics.get(),
    });
  }

  /** Before anything runs. Throws if CELLS contradicts what the databases say. */
  async openHome(engine: Engine): Promise<void> {
    const { nest } = engine;
    const database = nest.get(Database);
    this.store = new CatalogueStore(database);
    if (!(await this.store.exists())) await refuseSecondCatalogue(this.settings);
    this.catalogueId = await this.store.open(this.names);
    await this.catalogue.refresh();
    this.refuseMissing();
    const { name } = this.home;
    await this.store.join(database, { catalogue: this.catalogueId, number: 0, name }, this.catalogue.all());
    this.home.engine = engine;
    this.home.setUp();
    this.home.definitionsCurrent = true;
    this.frontDoor.attachToHome(engine);
    addCellMetrics(nest.get(Metrics), this);
  }

  /** Starts the others; one that is away is tried again until it is back. */
  async start(): Promise<void> {
    const { nest } = this.home.engine!;
    const loops = nest.get(Loops);
    const catalogueLoop = loops.create('cells', KEEP_MS, async () => {
      await this.catalogue.refresh();
      return 'idle';
    });
    this.loops.push(catalogueLoop);
    const keepers = this.all.map((cell) => {
      const keeper = this.keeperOf(cell, nest.get(Database));
      const loop = loops.create(`cell-${cell.name}`, KEEP_MS, () => keeper.pass());
      keeper.watch(loop);
      this.loops.push(loop);
      return keeper;
    });
    await Promise.all(keepers.map((keeper) => keeper.pass()));
    if (this.settings.roles.includes('upkeep')) this.addMover(loops);
    for (const loop of this.loops) loop.start();
  }

  /** Copies what has just been defined. Returns the cells that do not know it yet. */
  async copyDefinitions(): Promise<readonly string[]> {
    const copy = new DefinitionsCopy(this.home.engine!.nest.get(Database));
    const others = this.all.slice(1);
    const copied = await Promise.all(
      others.map(async ({ name, state, engine }) => {
        const number = this.catalogue.numberOf(name);
        if (number === undefined || state !== 'up' || !engine) return false;
        try {
          await copy.bringTo(engine.nest, { catalogue: this.catalogueId, number });
          await copy.refresh(engine.nest);
          return true;
        } catch {
          return false;
        }
      }),
    );
    return others.filter((_, index) => !copied[index]).map(({ name }) => name);
  }

  /** Before the home cell closes: a keeper would find its database away. */
  async stopKeepers(): Promise<void> {
    await Promise.all(this.loops.map((loop) => loop.stop()));
  }

  /** After the home cell, whose HTTP server hands requests over to the others. */
  async close(): Promise<void> {
    await Promise.all(this.all.slice(1).map(({ engine }) => engine?.nest.close()));
  }

  private addMover(loops: Loops): void {
    const { store: catalogue, log } = this;
    const mover = new SlotMover({
      ...{ cells: this, catalogue, log },
      metrics: new MoveMetrics(this.home.engine!.nest.get(Metrics)),
      leaseMs: this.settings.inboxLease,
      quietMs: MAX_QUIET_MS,
    });
    this.loops.push(loops.create('cell-moves', KEEP_MS, () => mover.pass()));
  }

  private keeperOf(cell: Cell, home: Database): CellKeeper {
    const isHome = cell === this.home;
    const { catalogueId, catalogue, store, log } = this;
    const definitions = isHome ? undefined : new DefinitionsCopy(home);
    const create = isHome ? undefined : () => this.createEngine(cell, home);
    return new CellKeeper(cell, { catalogueId, catalogue, store, definitions, log, create });
  }

  private async createEngine(cell: Cell, home: Database): Promise<Engine> {
    const { name, url } = cell;
    const settings = this.settingsOf(cell);
    await this.engines.prepare(url, settings);
    const engine = await this.engines.create({
      databaseUrl: url,
      settings,
      log: this.log.child({ cell: name }),
      extensions: [CellsModule.other(home, this.lanesOf(cell))],
    });
    this.frontDoor.attach(engine);
    engine.server.shareLimitsOf(this.home.engine!.server);
    engine.server.authenticateWith(this.home.engine!.nest.get(Callers));
    engine.nest.get(Readiness, { strict: false }).setReady();
    return engine;
  }

  private lanesOf({ name }: Cell): OwnLanes {
    const { catalogue } = this;
    return { has: (lane) => catalogue.slot(lane).cell === catalogue.numberOf(name) };
  }

  /** Of one cell: what only the home cell does is left out, and so is the work of a cell that this replica does not serve. */
  private settingsOf(cell: Cell): Settings {
    const isHome = cell === this.home;
    const { roles, listenersFile } = this.settings;
    return {
      ...this.settings,
      databaseUrl: cell.url,
      roles: cell.served ? roles : roles.filter((role) => role === 'api'),
      listenersFile: isHome ? listenersFile : undefined,
    };
  }

  /** Keys of a cell that this replica does not know would be answered 503 indefinitely. */
  private refuseMissing(): void {
    const used = new Set(this.catalogue.all().map(({ cell }) => this.catalogue.nameOf(cell)));
    const missing = [...used].filter((name) => !this.byName(name));
    if (missing.length === 0) return;
    throw new SettingsError([
      `CELLS lacks ${missing.join(', ')}, which has slots in the catalogue of "${this.home.name}"; add its name and URL`,
    ]);
  }
}
