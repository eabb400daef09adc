import type { CatalogueRows, CatalogueStore, SlotRow } from './catalogue-store.ts';

/** Which cell has which slot, as of the last refresh. It stays in memory while the home cell is away. */
export class Catalogue {
  private slots: readonly SlotRow[] = [];
  private names = new Map<number, string>();
  private refreshing: Promise<void> | undefined;
  /** The sum of the versions of all slots: grows with every change. */
  version = 0;

  constructor(private readonly store: Pick<CatalogueStore, 'read'>) {}

  slot(slot: number): SlotRow {
    return this.slots[slot]!;
  }

  get isMoving(): boolean {
    return this.slots.some(({ moving_to }) => moving_to !== null);
  }

  all(): readonly SlotRow[] {
    return this.slots;
  }

  numberOf(name: string): number | undefined {
    return [...this.names].find(([, one]) => one === name)?.[0];
  }

  nameOf(number: number): string {
    return this.names.get(number) ?? `#${number}`;
  }

  /** Requests that wait share one query. */
  refresh(): Promise<void> {
    this.refreshing ??= this.store
      .read()
      .then((rows) => this.apply(rows))
      .finally(() => {
        this.refreshing = undefined;
      });
    return this.refreshing;
  }

  private apply({ cells, slots }: CatalogueRows): void {
    this.names = new Map(cells.map(({ number, name }) => [number, name]));
    this.slots = slots;
    this.version = slots.reduce((sum, slot) => sum + slot.version, 0);
  }
}
