import { createHash } from 'node:crypto';
import type { MessageRow } from './history.ts';

/** What the chain of each key must be: computed from its finished messages in the order of their positions. */
export class Folds {
  private readonly byKey = new Map<string, string[]>();

  constructor(messages: readonly MessageRow[]) {
    for (const { key, id, status } of messages) {
      if (status !== 'finished') continue;
      const hashes = this.byKey.get(key) ?? [];
      const before = hashes.at(-1) ?? '';
      hashes.push(
        createHash('md5')
          .update(before + id)
          .digest('hex'),
      );
      this.byKey.set(key, hashes);
    }
  }

  /** How many keys have finished messages. */
  get size(): number {
    return this.byKey.size;
  }

  /** The hash after each message. */
  of(key: string): readonly string[] {
    return this.byKey.get(key) ?? [];
  }
}
