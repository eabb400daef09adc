interface Chain<Item> {
  items: Item[];
  /** Its first item failed and waits: the others wait behind it. */
  parked: boolean;
}

/**
 * Messages of one key, one after the other; keys in the order in which they became ready. A key that is parked takes part in
 * nothing, so it blocks only itself.
 */
export class KeyChains<Item> {
  private readonly chains = new Map<string, Chain<Item>>();
  /** Keys whose first item can start. A Set keeps the order of insertion. */
  private readonly ready = new Set<string>();
  private count = 0;
  private parkedCount = 0;

  /** Items that are not settled, started ones included. */
  get size(): number {
    return this.count;
  }

  /** How many of them belong to parked keys. */
  get parked(): number {
    return this.parkedCount;
  }

  add(key: string, item: Item): void {
    const chain = this.chains.get(key);
    this.count += 1;
    if (chain) {
      chain.items.push(item);
      if (chain.parked) this.parkedCount += 1;
      return;
    }
    this.chains.set(key, { items: [item], parked: false });
    this.ready.add(key);
  }

  /** The first item of the next ready key; it is started, so its key is not ready until it is settled or resumed. */
  next(): Item | undefined {
    for (const key of this.ready) {
      this.ready.delete(key);
      return this.chains.get(key)!.items[0];
    }
    return undefined;
  }

  /** The first item of the key is done. */
  settle(key: string): void {
    const chain = this.chains.get(key);
    if (!chain) return;
    chain.items.shift();
    this.count -= 1;
    if (chain.items.length > 0) this.ready.add(key);
    else this.chains.delete(key);
  }

  /** The first item of the key is to be started again, later. */
  park(key: string): void {
    const chain = this.chains.get(key);
    if (!chain || chain.parked) return;
    chain.parked = true;
    this.parkedCount += chain.items.length;
  }

  resume(key: string): void {
    const chain = this.chains.get(key);
    if (!chain?.parked) return;
    chain.parked = false;
    this.parkedCount -= chain.items.length;
    this.ready.add(key);
  }

  /** Forgets the chains whose items are such; a chain has items of one partition only. */
  drop(which: (item: Item) => boolean): void {
    for (const [key, chain] of this.chains) {
      if (!which(chain.items[0]!)) continue;
      this.count -= chain.items.length;
      if (chain.parked) this.parkedCount -= chain.items.length;
      this.chains.delete(key);
      this.ready.delete(key);
    }
  }
}
