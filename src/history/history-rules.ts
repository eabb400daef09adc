import { Inject, Injectable } from '@nestjs/common';
import { SETTINGS_TOKEN, type Settings } from '../config/settings.ts';
import { compilePattern, likeOf } from '../listeners/type-patterns.ts';

/** HISTORY: which types are kept, and for how long. */
@Injectable()
export class HistoryRules {
  /** For LIKE, in the order of the setting; empty if nothing is kept. */
  readonly likePatterns: readonly string[];
  /** The shortest time that is not forever; undefined: there is none. */
  readonly shortestMs: number | undefined;
  private readonly rules;
  /** Producers choose types, so the cache is bounded. */
  private readonly cached = new Map<string, number>();

  constructor(@Inject(SETTINGS_TOKEN) { history }: Pick<Settings, 'history'>) {
    this.likePatterns = history.map(({ pattern }) => likeOf(pattern));
    const limited = history.flatMap(({ ms }) => ms ?? []);
    this.shortestMs = limited.length > 0 ? Math.min(...limited) : undefined;
    this.rules = history.map(({ pattern, ms }) => ({ matches: compilePattern(pattern), ms }));
  }

  /** The index of the first rule whose pattern matches the type; -1: it is not kept. */
  indexOf(type: string): number {
    const known = this.cached.get(type);
    if (known !== undefined) return known;
    const index = this.rules.findIndex(({ matches }) => matches(type));
    if (this.cached.size >= MAX_CACHED) this.cached.clear();
    this.cached.set(type, index);
    return index;
  }

  /**
   * For how long a block with these types is kept. Undefined: forever. So is what no pattern matches (any more): a pattern that
   * was forgotten on one replica must not remove history.
   */
  keptMs(types: readonly string[]): number | undefined {
    const kept = types.map((type) => this.rules[this.indexOf(type)]?.ms);
    return kept.some((ms) => ms === undefined) ? undefined : Math.max(...(kept as number[]));
  }
}

const MAX_CACHED = 10_000;
