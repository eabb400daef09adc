import { describe, expect, it } from '@jest/globals';
import type { Senders } from '../../brokers/senders.ts';
import type { Listener } from '../../listeners/listener.ts';
import type { Log } from '../../telemetry/logger.ts';
import type { CallResult } from '../../webhooks/call-result.ts';
import type { Admission } from '../admit/admission.ts';
import type { Draining } from '../admit/draining.ts';
import { leasedLane } from '../claim/leased-lane.ts';
import type { ClaimedDelivery, MessageContent } from '../claim/outbox-queue.ts';
import type { MessageContents } from '../fan-out/message-contents.ts';
import type { DeliveryMetrics } from '../health/delivery-metrics.ts';
import type { ListenerPolicy } from '../health/listener-policy.ts';
import type { Result } from '../settle/delivery-result.ts';
import type { ResultWriter } from '../settle/result-writer.ts';
import { LaneSender } from './lane-sender.ts';

const LISTENER = { onDead: 'skip', retryScheduleMs: [1, 1], terminalStatuses: [] } as unknown as Listener;
const OK: CallResult = { kind: 'responded', status: 200, excerpt: '', durationMs: 1 };
const FAILED: CallResult = { ...OK, status: 500 };
const LEASED = leasedLane({
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

interface Options {
  /** By the id of the delivery; others succeed. */
  readonly responses?: Record<string, CallResult>;
  readonly admit?: Admission['admit'];
  readonly contentsOf?: MessageContents['of'];
}

/** A sender with fake dependencies, and what it did. */
function laneSender({ responses = {}, admit = () => LISTENER, contentsOf }: Options = {}) {
  const log = { sent: [] as string[], loaded: [] as string[], results: [] as Result[], declined: 0 };
  const contents: Pick<MessageContents, 'of'> = {
    of: async (wanted) => {
      log.loaded.push(wanted.map(({ id }) => id).join(' '));
      return new Map(wanted.map(({ message }) => [message, {} as MessageContent]));
    },
    ...(contentsOf ? { of: contentsOf } : {}),
  };
  const admission: Pick<Admission, 'admit' | 'leave' | 'callMs'> = {
    admit,
    callMs: () => 1_000,
    leave: (_, outcome) => {
      if (outcome === undefined) log.declined += 1;
    },
  };
  const senders: Pick<Senders, 'send'> = {
    send: async ({ deliveryId }) => {
      log.sent.push(deliveryId);
      return responses[deliveryId] ?? OK;
    },
  };
  const results: Pick<ResultWriter, 'add'> = { add: (result) => void log.results.push(result) };
  const lane = new LaneSender(
    {} as Log,
    contents as MessageContents,
    admission as Admission,
    senders as Senders,
    { record: () => undefined } as unknown as ListenerPolicy,
    results as ResultWriter,
    { ending: new AbortController().signal } as Draining,
    { calling: (call: Promise<CallResult>) => call } as DeliveryMetrics,
  );
  return { lane, log };
}

const kinds = (results: readonly Result[]) =>
  results.map(({ kind, delivery }) => `${delivery.id} ${kind}`).join(', ');

describe('the claimed deliveries of a lane', () => {
  it('are sent one after the other, in order', async () => {
    const { lane, log } = laneSender();
    expect(await lane.sendAll(LEASED, deliveries('a1 b1 a2 b2'))).toBe(true);
    expect(log.sent).toEqual(['a1', 'b1', 'a2', 'b2']);
  });

  it('wait behind an earlier delivery of their key that waits, while other keys continue', async () => {
    const { lane, log } = laneSender({ responses: { a1: FAILED } });
    expect(await lane.sendAll(LEASED, deliveries('a1 b1 a2 b2 a3'))).toBe(true);
    expect(kinds(log.results)).toBe('a1 sent, b1 sent, a2 behind, b2 sent, a3 behind');
  });

  it('are all untouched from where the run has to stop, each with one result', async () => {
    let left = 2;
    const { lane, log } = laneSender({
      admit: () => (left-- > 0 ? LISTENER : undefined),
      responses: { a1: FAILED },
    });
    expect(await lane.sendAll(LEASED, deliveries('a1 b1 b2 a2 c1'))).toBe(false);
    expect(kinds(log.results)).toBe('a1 sent, b1 sent, b2 untouched, a2 behind, c1 untouched');
  });

  it('are loaded in parts of up to 64 KiB, or one that is larger', async () => {
    const { lane, log } = laneSender({ responses: { a1: FAILED } });
    await lane.sendAll(LEASED, deliveries('a1 b1 c1 a2 d1', 30 * 1024));
    expect(log.loaded).toEqual(['a1 b1', 'c1', 'd1']);
    const large = laneSender();
    await large.lane.sendAll(LEASED, deliveries('a1 b1', 1024 * 1024));
    expect(large.log.loaded).toEqual(['a1', 'b1']);
  });

  it('are all untouched when their contents cannot be read', async () => {
    const { lane, log } = laneSender({
      contentsOf: () => Promise.reject(new Error('the database is away')),
    });
    expect(await lane.sendAll(LEASED, deliveries('a1 a2'))).toBe(false);
    expect(kinds(log.results)).toBe('a1 untouched, a2 untouched');
  });

  it('become dead letters when the message was removed, or replicas died too often while sending', async () => {
    const { lane, log } = laneSender({ contentsOf: async () => new Map([[1, {} as MessageContent]]) });
    const [gone, deadly] = deliveries('a1 b1');
    await lane.sendAll(LEASED, [gone!, { ...deadly!, attempt: 4 }]);
    expect(log.results).toEqual([
      expect.objectContaining({
        kind: 'unsendable',
        reason: 'its message was removed before it could be sent',
      }),
      expect.objectContaining({
        kind: 'unsendable',
        reason: 'its replica died while sending it, 3 times in a row',
      }),
    ]);
    expect(log.declined).toBe(2);
    expect(log.sent).toEqual([]);
  });
});
