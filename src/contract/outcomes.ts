import { parseDuration } from '../config/duration.ts';

/**
 * Throw this from a denormalizer to postpone the message: it is retried after the delay, and this attempt is not counted.
 * Later messages of the same key wait behind it; other keys are not affected.
 *
 *     throw new Defer('30s', 'two checks are still open');
 */
export class Defer extends Error {
  readonly delayMs: number;

  constructor(delay: string, reason: string) {
    super(reason);
    this.name = 'Defer';
    const ms = parseDuration(delay);
    if (ms === undefined) throw new Error(`Defer: "${delay}" is not a duration such as "30s"`);
    this.delayMs = ms;
  }
}

/** Throw this from a denormalizer if a retry cannot succeed: the message becomes a dead letter at once. */
export class Refuse extends Error {
  constructor(reason: string) {
    super(reason);
    this.name = 'Refuse';
  }
}
