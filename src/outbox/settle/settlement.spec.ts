import { describe, expect, it } from '@jest/globals';
import type { Listener } from '../../listeners/listener.ts';
import type { ClaimedDelivery } from '../claim/outbox-queue.ts';
import type { Outcome } from '../send/outcome.ts';
import type { SentDelivery } from './delivery-result.ts';
import { settlementOf } from './settlement.ts';

const DELIVERY = { key: 'k', lane: 256, age_ms: 0 } as ClaimedDelivery;
const FAILED = { counted: true, overloaded: false, reason: 'no' };

/** The hold on its key, settled 100 ms after the response. */
function holdAfter(outcome: Outcome, listener: Partial<Listener> = {}, age_ms = 0) {
  const tried = {
    kind: 'sent',
    delivery: { ...DELIVERY, age_ms },
    listener: { onDead: 'skip', ...listener },
    callResult: { kind: 'responded', status: 500, excerpt: '', durationMs: 1 },
    outcome,
    atMs: 1_000,
  } as SentDelivery;
  return settlementOf([tried], 1_100).holds[0];
}

const perKey = (perSecond: number) => ({
  rateLimit: { perSecond: 10_000, burst: 1, perKey: { perSecond } },
});

describe('a key', () => {
  it('waits for its retry', () => {
    expect(holdAfter({ kind: 'retry', afterMs: 50, ...FAILED })).toEqual({
      key: 'k',
      lane: 256,
      forMs: 50,
      reason: 'retry',
    });
  });

  it.each<Outcome>([
    { kind: 'delivered' },
    { kind: 'dead', ...FAILED },
    { kind: 'retry', afterMs: 1, ...FAILED },
    { kind: 'pause', afterMs: 1_000, ...FAILED },
  ])('waits for its own rate, counted from the response: $kind', (outcome) => {
    expect(holdAfter(outcome, perKey(0.5))).toMatchObject({ forMs: 1_900 });
    expect(holdAfter(outcome, perKey(1_000))).toMatchObject({
      forMs: 'afterMs' in outcome ? outcome.afterMs : 0,
    });
  });

  it('is held only briefly for a pause, which applies to its whole listener', () => {
    expect(holdAfter({ kind: 'pause', afterMs: 3_600_000, ...FAILED })).toMatchObject({ forMs: 2_000 });
  });

  it('that has to wait again and again is retried less often, the older it is', () => {
    const asked: Outcome = { kind: 'pause', afterMs: 1_000, ...FAILED };
    expect(holdAfter(asked, {}, 60_000)).toMatchObject({ forMs: 1_000 });
    let [ageMs, attempts] = [0, 0];
    for (; ageMs < 75 * 3_600_000; attempts++) ageMs += holdAfter(asked, {}, ageMs)!.forMs!;
    expect(attempts).toBeLessThan(6_500);
  });

  it('waits behind its dead letter if the listener is set so, at any rate', () => {
    const dead: Outcome = { kind: 'dead', ...FAILED };
    expect(holdAfter(dead)).toBeUndefined();
    expect(holdAfter(dead, { onDead: 'hold', ...perKey(1) })).toMatchObject({
      forMs: undefined,
      reason: 'dead-letter',
    });
  });
});
