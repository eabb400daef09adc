/** A limit of the service, for the next offsets in one request. */
const MAX_ITEMS = 500;

export interface OwnedPlace {
  readonly topic: string;
  readonly partition: number;
  readonly fence: number;
}

interface Skipped extends OwnedPlace {
  readonly from: number;
  readonly to: number;
}

interface Assignment {
  readonly assigned: readonly (OwnedPlace & { readonly committed: number })[];
  readonly draining: readonly (OwnedPlace & { readonly committed: number })[];
}

/** The next offset of each partition of a member: the service hands out again what was in a response that got lost. */
export class GroupPositions {
  private positions = new Map<string, OwnedPlace & { next: number }>();
  private polls = 0;

  /** Returns what the service has passed over by itself, because retention had removed it. */
  assign({ assigned, draining }: Assignment): Skipped[] {
    const skipped: Skipped[] = [];
    const places = [...assigned, ...draining].map(({ topic, partition, fence, committed }) => {
      const place = { topic, partition, fence };
      const known = this.positions.get(keyOf(place));
      if (known && committed >= known.next) skipped.push({ ...place, from: known.next, to: committed });
      return [keyOf(place), { ...place, next: Math.max(known?.next ?? 0, committed + 1) }] as const;
    });
    this.positions = new Map(places);
    return skipped;
  }

  /** For a poll. Of more partitions than fit, each poll names others. */
  next(): readonly (OwnedPlace & { readonly next: number })[] {
    const all = [...this.positions.values()];
    const count = Math.min(all.length, MAX_ITEMS);
    const from = this.polls++ * count;
    return Array.from({ length: count }, (_, n) => all[(from + n) % all.length]!);
  }

  /** False if what is before the batch was in a response that got lost: nothing of it may be used. */
  receive(batch: OwnedPlace & { from: number; to: number; skipped?: { from: number } }): boolean {
    const position = this.positions.get(keyOf(batch));
    if (!position || (batch.skipped?.from ?? batch.from) > position.next) return false;
    position.next = batch.to + 1;
    return true;
  }
}

/** One partition can be owned twice, with two fences. */
export function keyOf({ topic, partition, fence }: OwnedPlace): string {
  return `${topic}/${partition}/${fence}`;
}
