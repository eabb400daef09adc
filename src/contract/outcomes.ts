import { parseDuration } from '../config/duration.ts';

/**
 * Throw it to say *not now*: the message goes back and comes again after the delay, without being charged an attempt.
 * Messages of its key wait behind it; others go on.
 *
 *     throw new Defer('30s', 'two checks still new');
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

/** Throw it when trying again cannot help: the message becomes a dead letter at once. */
export class Refuse extends Error {
  constructor(reason: string) {
    super(reason);
    this.name = 'Refuse';
  }
}
