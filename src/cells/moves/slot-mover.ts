import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Next } from '../../clock/loop.ts';
import type { ReadModel } from '../../contract/read-model.ts';
import { Database } from '../../database/database.ts';
import { Wakeups } from '../../lanes/wakeups.ts';
import { READ_MODELS_TOKEN } from '../../rebuild/read-model-registry.ts';
import type { Log } from '../../telemetry/logger.ts';
import type { CatalogueStore } from '../catalogue-store.ts';
import { cellAway } from '../cell.ts';
import type { CellsView } from '../cells-view.ts';
import type { Engine } from '../engine.ts';
import { Arrival } from './arrival.ts';
import { Departure } from './departure.ts';
import type { MoveMetrics } from './move-metrics.ts';
import { type Move, MoveStore } from './move-store.ts';

interface MoverOptions {
  readonly cells: CellsView;
  readonly catalogue: Pick<CatalogueStore, 'fence'>;
  readonly metrics: MoveMetrics;
  readonly log: Log;
  readonly leaseMs: number;
  /** How long a slot waits for deliveries in flight. */
  readonly quietMs: number;
}

/** A move that failed is tried again after this, by any replica: what it needs may be away. */
const RETRY_MS = 1_000;
const DIED = 'its replica died or was cut off';

/** The two ends of a move. */
interface Ends {
  readonly departure: Departure;
  readonly arrival: Arrival;
}

/**
 * Moves slots, one at a time over all replicas. The COMMIT of `arrival.unpack` decides: before it a move can be undone, after it
 * only finished, and whoever takes over a move asks the marker in that cell which of the two it is.
 */
export class SlotMover {
  private readonly store: MoveStore;

  constructor(private readonly options: MoverOptions) {
    const home = options.cells.home.engine!.nest.get(Database);
    this.store = new MoveStore(home, randomUUID(), options.leaseMs);
  }

  async pass(): Promise<Next> {
    const { cells } = this.options;
    const up = cells.all.filter(({ state }) => state === 'up');
    const numbers = up.flatMap(({ name }) => cells.catalogue.numberOf(name) ?? []);
    const move = await this.store.take(`${hostname()}:${process.pid}`, numbers);
    if (!move) return 'idle';
    const renewing = setInterval(() => this.renew(move), this.options.leaseMs / 4);
    try {
      await (move.state === 'waiting' ? this.carryOut(move) : this.recover(move, DIED));
    } catch (error) {
      // What it needs may be away. Another replica may have taken it over, too.
      this.options.log.error(
        { event: 'cells.move-failed', slot: move.slot, error },
        'moving a slot failed; it will be retried',
      );
      await this.store.release(move, RETRY_MS).catch(() => undefined);
      return 'soon';
    } finally {
      clearInterval(renewing);
    }
    return 'again';
  }

  private renew(move: Move): void {
    this.store.renew(move).catch(() => undefined);
  }

  private async carryOut(move: Move): Promise<void> {
    try {
      await this.bringOver(move);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      await this.store.failed(move, why);
      const state = await this.store.stateOf(move);
      if (state) await this.recover({ ...move, state }, why);
      return;
    }
    await this.finish({ ...move, state: 'closed' });
  }

  private async bringOver(move: Move): Promise<void> {
    const { departure, arrival } = this.ends(move);
    await arrival.refuseRebuild();
    await this.store.prepare(move);
    await departure.stopLane();
    const contents = await departure.findContents();
    await departure.untilQuiet(this.options.quietMs);
    const version = await this.store.close(move);
    const closed = { slot: move.slot, cell: move.from, version, moving_to: move.to };
    await this.options.catalogue.fence(departure.source, move.from, [closed]);
    await this.store.setRows(move, await departure.packAll(contents));
    await arrival.unpack(departure.source, await departure.counted(), version + 1);
  }

  /** Undoes it, or finishes it if everything has arrived. */
  private async recover(move: Move, why: string): Promise<void> {
    const { state } = move;
    if (state === 'cleaning') return this.finish(move);
    const outcome = state === 'closed' ? await this.ends(move).arrival.undoUnlessArrived() : 'undone';
    if (outcome === 'arrived') return this.finish(move);
    const version = await this.store.closedVersion(move);
    const departure = this.departure(move);
    await departure.undo(version === undefined ? undefined : version + 1);
    await this.store.undone(move, why);
    await this.notifyWorkers(move.from, move.slot);
    this.options.metrics.undone();
    this.options.log.warn(
      { event: 'cells.move-undone', slot: move.slot, why },
      'the move of a slot was undone',
    );
  }

  /** Everything has arrived. */
  private async finish(move: Move): Promise<void> {
    if (move.state !== 'cleaning') await this.store.switchSlot(move);
    await this.notifyWorkers(move.to, move.slot);
    await this.departure(move).clean();
    await this.store.done(move);
    const ended = (await this.store.list()).find(({ id }) => id === move.id);
    this.options.metrics.done(ended?.pauseMs ?? 0);
    this.options.log.info({ event: 'cells.moved', ...ended }, 'a slot has moved');
  }

  /** Workers poll at once, instead of after their interval. */
  private async notifyWorkers(number: number, slot: number): Promise<void> {
    const { cells } = this.options;
    await cells.catalogue.refresh();
    const engine = cells.byNumber(number)?.engine;
    if (!engine) return;
    const wakeups = engine.nest.get(Wakeups, { strict: false });
    wakeups.announce('inbox', new Set([slot]));
    wakeups.announce('outbox', new Set());
  }

  private ends(move: Move): Ends {
    const to = this.engineOf(move.to);
    return { departure: this.departure(move), arrival: new Arrival(to.nest.get(Database), move) };
  }

  private departure(move: Move): Departure {
    const { nest } = this.engineOf(move.from);
    const models: readonly ReadModel[] = nest.get(READ_MODELS_TOKEN, { strict: false });
    return new Departure(nest.get(Database), models, move);
  }

  private engineOf(number: number): Engine {
    const { cells } = this.options;
    const cell = cells.byNumber(number);
    if (cell) return cell.running;
    throw cellAway(cells.catalogue.nameOf(number), 'it is not in CELLS of this replica');
  }
}
