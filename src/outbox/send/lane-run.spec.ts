import { describe, expect, it } from '@jest/globals';
import type { Listener } from '../../listeners/listener.ts';
import type { Answer } from '../../webhooks/answer.ts';
import type { ClaimedDelivery, MessageContent } from '../claim/claimed-delivery.ts';
import { heldLane } from '../claim/held-lane.ts';
import type { Result } from '../settle/delivery-result.ts';
import { type LaneRunDeps, runLane } from './lane-run.ts';
import type { Outcome } from './outcome.ts';

const LISTENER = { onDead: 'skip', retryScheduleMs: [1, 1], rateLimit: undefined } as unknown as Listener;
const ANSWER: Answer = { kind: 'answered', status: 200, excerpt: '', durationMs: 1 };
const RETRY: Outcome = { kind: 'retry', afterMs: 1, charged: true, throttled: false, reason: 'no' };
const HELD = heldLane({
  lane: 256,
  token: 't',
  listener: 1,
  maxRows: 32,
  untilMs: 0,
  probe: undefined,
  safeUntilMs: 0,
});

/** `a1 a2 b1`: deliveries of keys a and b. */
function deliveries(text: string, bytes = 10): ClaimedDelivery[] {
  return text.split(' ').map((name, index) => ({
    position: index,
    lane: 256,
    place: `(0,${index + 1})`,
    id: name,
    listener: 1,
    message: index,
    key: name[0]!,
    sequence: Number(name[1]),
    bytes,
    attempt: 1,
    age_ms: 0,
  }));
}

interface Around extends LaneRunDeps {
  readonly sent: string[];
  readonly loaded: string[];
  readonly results: Result[];
}

function around(change: Partial<LaneRunDeps> & { outcomes?: Record<string, Outcome> } = {}): Around {
  const sent: string[] = [];
  const loaded: string[] = [];
  const results: Result[] = [];
  return {
    sent,
    loaded,
    results,
    contentOf: async (wanted) => {
      loaded.push(wanted.map(({ id }) => id).join(' '));
      return new Map(wanted.map(({ message }) => [message, {} as MessageContent]));
    },
    admit: () => LISTENER,
    decline: () => undefined,
    send: async ({ id }) => {
      sent.push(id);
      return { answer: ANSWER, outcome: change.outcomes?.[id] ?? { kind: 'delivered' }, atMs: 0 };
    },
    add: (result) => void results.push(result),
    ...change,
  };
}

const kinds = ({ results }: Around) =>
  results.map(({ kind, delivery }) => `${delivery.id} ${kind}`).join(', ');

describe('a run of a lane', () => {
  it('sends one after the other, in order', async () => {
    const surroundings = around();
    expect(await runLane(HELD, deliveries('a1 b1 a2 b2'), surroundings)).toBe(true);
    expect(surroundings.sent).toEqual(['a1', 'b1', 'a2', 'b2']);
  });

  it('keeps what is behind a delivery that waits, and goes on with other keys', async () => {
    const surroundings = around({ outcomes: { a1: RETRY } });
    expect(await runLane(HELD, deliveries('a1 b1 a2 b2 a3'), surroundings)).toBe(true);
    expect(kinds(surroundings)).toBe('a1 tried, b1 tried, a2 behind, b2 tried, a3 behind');
  });

  it('leaves everything from the place on where it must stop, and nothing twice', async () => {
    let left = 2;
    const surroundings = around({
      admit: () => (left-- > 0 ? LISTENER : undefined),
      outcomes: { a1: RETRY },
    });
    expect(await runLane(HELD, deliveries('a1 b1 b2 a2 c1'), surroundings)).toBe(false);
    expect(kinds(surroundings)).toBe('a1 tried, b1 tried, b2 untouched, a2 behind, c1 untouched');
  });

  it('loads no more than it can keep: 64 KiB at a time, or one that is larger', async () => {
    const surroundings = around({ outcomes: { a1: RETRY } });
    await runLane(HELD, deliveries('a1 b1 c1 a2 d1', 30 * 1024), surroundings);
    expect(surroundings.loaded).toEqual(['a1 b1', 'c1', 'd1']);
    const large = around();
    await runLane(HELD, deliveries('a1 b1', 1024 * 1024), large);
    expect(large.loaded).toEqual(['a1', 'b1']);
  });

  it('leaves all as it was when contents cannot be read', async () => {
    const surroundings = around({ contentOf: () => Promise.reject(new Error('the database is away')) });
    expect(await runLane(HELD, deliveries('a1 a2'), surroundings)).toBe(false);
    expect(kinds(surroundings)).toBe('a1 untouched, a2 untouched');
  });

  it('buries what has no content any more, and what has killed its replica too often', async () => {
    const declined: string[] = [];
    const surroundings = around({
      contentOf: async () => new Map([[1, {} as MessageContent]]),
      decline: ({ token }) => void declined.push(token),
    });
    const [gone, deadly] = deliveries('a1 b1');
    await runLane(HELD, [gone!, { ...deadly!, attempt: 4 }], surroundings);
    expect(surroundings.results).toEqual([
      expect.objectContaining({
        kind: 'unsendable',
        reason: 'its message was removed before it could be sent',
      }),
      expect.objectContaining({
        kind: 'unsendable',
        reason: 'its replica died while sending it, 3 times in a row',
      }),
    ]);
    expect(declined).toHaveLength(2);
    expect(surroundings.sent).toEqual([]);
  });
});
