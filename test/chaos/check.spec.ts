import { createHash } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { check } from '../../chaos/check.ts';
import type { Arrival, DeliveryRow, History, MessageRow, Posted } from '../../chaos/history.ts';
import { loggedIn } from '../../chaos/logged.ts';
import { type Fault, type ScheduledFault, schedule } from '../../chaos/schedule.ts';
import type { Check } from '../../chaos/violation.ts';

const md5 = (text: string) => createHash('md5').update(text).digest('hex');

function message(position: number, id: string, more: Partial<MessageRow> = {}): MessageRow {
  const row = {
    position,
    id,
    type: 'plain',
    key: 'k',
    lane: 1,
    payload: {},
    text: '{}',
    error: null,
    superseded_by: null,
    archived: false,
  };
  return { ...row, status: 'finished', attempt: 1, ...more };
}

function posted(id: string, more: Partial<Posted> = {}): Posted {
  const message = { id, type: 'plain', key: 'k', payload: '{}', scheduled: false, postedMs: 100 };
  return { ...message, outcome: 'accepted', ...more };
}

function delivery(id: string, number: number, more: Partial<DeliveryRow> = {}): DeliveryRow {
  const row = {
    position: number,
    id,
    listener: 'a',
    message: number,
    key: 'k',
    lane: 257,
    sequence: number,
    error: null,
  };
  return { ...row, status: 'finished', attempt: 1, reopened: false, attemptsTotal: 0, ...more };
}

function bodyOf(id: string, key: string, number = 1): string {
  return `{"id":"${id}","type":"plain","timestamp":"2026-01-01T00:00:00.000Z","key":"${key}","sequence":${number},"data":{}}`;
}

function arrival(at: number, name: string, number: number, more: Partial<Arrival> = {}): Arrival {
  const body = bodyOf(`m${number}`, 'k', number);
  const one = { listener: 'a', at, atMs: at, delivery: name, signed: 'yes', body, ce: undefined };
  return { ...one, reply: 'ok', ...more };
}

/** Two messages of a key, and a third that was refused. */
const GOOD: History = {
  posted: [posted('m1'), posted('m2'), posted('m3', { outcome: 'refused' })],
  messages: [message(1, 'm1'), message(2, 'm2')],
  effects: [
    { id: 'm1', times: 1 },
    { id: 'm2', times: 1 },
  ],
  chains: [{ key: 'k', n: 2, hash: md5(`${md5('m1')}m2`) }],
  attemptLog: [],
  deliveries: [delivery('d1', 1), delivery('d2', 2)],
  arrivals: [arrival(1, 'd1', 1), arrival(2, 'd2', 2)],
  leased: [],
  holds: [],
  operations: { keys: new Set(), schedulePauses: [], replayed: [], restarted: [], ruled: [] },
  rebuilds: {
    seen: [{ key: 'k', n: 1, hash: md5('m1') }],
    lost: [],
    stopped: [],
    identities: 0,
    kept: undefined,
    compared: [{ id: 1, tables: [{ table: 'chain', onlyOld: 0, onlyNew: 0, different: 0 }] }],
  },
  groups: undefined,
  queues: undefined,
  logged: [],
  injected: [],
  terms: {
    retriesMs: [100, 200],
    listeners: [
      { name: 'a', types: ['plain'], ordered: true, format: 'standard', maxAttempts: 3, onDead: 'skip' },
    ],
  },
};

function rebuilds(change: Partial<History['rebuilds']>): Partial<History> {
  return { rebuilds: { ...GOOD.rebuilds, ...change } };
}

const dead = message(2, 'm2', { status: 'dead', payload: { refuses: true } });
const hold = { queue: 'inbox', key: 'k', lane: 1, reason: 'dead-letter', indefinite: true };
const failed = (what: string, attempt: number, atMs: number) => ({ id: 'm1', what, attempt, atMs });

const PLANTED: readonly [Check, string, Partial<History>][] = [
  [
    'nothing accepted is lost',
    'an accepted message that is missing',
    { posted: [...GOOD.posted, posted('m4')] },
  ],
  [
    'nothing refused is applied',
    'a refused message that is stored',
    { messages: [...GOOD.messages, message(3, 'm3')] },
  ],
  [
    'nothing refused is applied',
    'a message that was never posted',
    { messages: [...GOOD.messages, message(3, 'm9')] },
  ],
  ['applied exactly once', 'a second effect', { effects: [{ id: 'm1', times: 2 }, GOOD.effects[1]!] }],
  ['applied exactly once', 'no effect', { effects: [GOOD.effects[0]!] }],
  ['applied exactly once', 'a second row', { messages: [...GOOD.messages, message(3, 'm2')] }],
  [
    'the read model is the fold of its messages',
    'another order',
    { chains: [{ key: 'k', n: 2, hash: md5(`${md5('m2')}m1`) }] },
  ],
  [
    'the read model is the fold of its messages',
    'an extra chain',
    { chains: [...GOOD.chains, { key: 'x', n: 1, hash: '' }] },
  ],
  ['order as posted', 'positions the other way round', { posted: [posted('m2'), posted('m1')] }],
  [
    'only failing messages become dead letters, none is overtaken',
    'a message that overtakes a dead letter',
    { messages: [message(1, 'm1', { status: 'dead', payload: { refuses: true } }), message(2, 'm2')] },
  ],
  [
    'only failing messages become dead letters, none is overtaken',
    'a dead letter that should not fail',
    { messages: [message(1, 'm1'), { ...dead, payload: {} }] },
  ],
  [
    'superseded only by a later message of its slot',
    'a superseded message without a slot',
    { messages: [message(1, 'm1', { status: 'superseded', superseded_by: 2 }), message(2, 'm2')] },
  ],
  [
    'what a message sends commits with its effect',
    'a message that sent nothing',
    { messages: [message(1, 'm1', { payload: { sendsTo: 'x' } }), message(2, 'm2')] },
  ],
  [
    'no retry before its time',
    'a second attempt too soon',
    { attemptLog: [failed('try', 1, 0), failed('fail', 1, 1), failed('try', 2, 50)] },
  ],
  [
    'inbox attempts within the maximum',
    'a fourth attempt of three',
    { messages: [message(1, 'm1', { attempt: 4 }), message(2, 'm2')] },
  ],
  [
    'every listener got every delivery, or it is a dead letter',
    'a delivery that was not written',
    { deliveries: [GOOD.deliveries[0]!] },
  ],
  [
    'every listener got every delivery, or it is a dead letter',
    'a finished delivery that was never accepted',
    { arrivals: [GOOD.arrivals[0]!] },
  ],
  [
    'every listener got every delivery, or it is a dead letter',
    'a dead delivery that was never rejected',
    { deliveries: [GOOD.deliveries[0]!, delivery('d2', 2, { status: 'dead', error: 'no' })] },
  ],
  [
    'only finished messages are delivered',
    'a second delivery',
    { deliveries: [...GOOD.deliveries, delivery('d3', 2)] },
  ],
  [
    'only finished messages are delivered',
    'a request without a delivery',
    { arrivals: [...GOOD.arrivals, arrival(3, 'd9', 3)] },
  ],
  [
    'order per key at the receiver',
    'the second delivery first',
    { arrivals: [arrival(1, 'd2', 2), arrival(2, 'd1', 1)] },
  ],
  [
    'order per key at the receiver',
    'the second delivery before the first was accepted',
    { arrivals: [arrival(1, 'd1', 1, { reply: '500' }), arrival(2, 'd2', 2), arrival(3, 'd1', 1)] },
  ],
  [
    'signatures',
    'a wrong signature',
    { arrivals: [arrival(1, 'd1', 1, { signed: 'no' }), GOOD.arrivals[1]!] },
  ],
  [
    'bytes as posted',
    'another payload stored',
    { messages: [message(1, 'm1', { text: '{ }' }), message(2, 'm2')] },
  ],
  ['bytes as posted', 'another body', { arrivals: [arrival(1, 'd1', 2), GOOD.arrivals[1]!] }],
  [
    'every repeat has a recorded reason',
    'a repeat without an attempt',
    { arrivals: [...GOOD.arrivals, arrival(3, 'd1', 1), arrival(4, 'd1', 1)] },
  ],
  [
    'delivery attempts within the maximum',
    'a fourth attempt of three',
    { deliveries: [delivery('d1', 1, { attempt: 4 }), GOOD.deliveries[1]!] },
  ],
  ['no lease left over', 'a leased lane', { leased: [{ queue: 'inbox', lane: 3 }] }],
  [
    'nothing stuck',
    'a pending message',
    { messages: [message(1, 'm1'), message(2, 'm2', { status: 'pending' })] },
  ],
  [
    'no error without an injected cause',
    'a loop that failed',
    { logged: [loggedIn('{"level":"error","event":"loop.failed","error":{"code":"22P02"}}', 0, 1)!] },
  ],
  [
    'signatures',
    'a request without the new secret long after it was rotated',
    { arrivals: [arrival(1, 'd1', 1, { rotated: { forMs: 20_000, signed: 'no' } }), GOOD.arrivals[1]!] },
  ],
  [
    'a replayed delivery is sent again',
    'a replay without a request',
    { operations: { ...GOOD.operations, replayed: [{ replay: 1, delivery: 'd1', createdAtMs: 5 }] } },
  ],
  [
    'a dead letter starts over once for each revive',
    'a dead letter that nobody revived',
    { operations: { ...GOOD.operations, restarted: [{ stage: 'inbox', position: 1, times: 1 }] } },
  ],
  [
    'a schedule posts every tick once',
    'a missing tick',
    {
      messages: [
        ...GOOD.messages,
        message(3, 'ticks/2026-01-01T00:00:01Z'),
        message(4, 'ticks/2026-01-01T00:00:03Z'),
      ],
    },
  ],
  [
    'a message is in the inbox or in history, never in both',
    'a message in both',
    { messages: [...GOOD.messages, message(2, 'm2', { archived: true })] },
  ],
  [
    'a message is in the inbox or in history, never in both',
    'a message in history whose repeat would be accepted',
    { messages: [message(1, 'm1', { archived: true }), message(2, 'm2')] },
  ],
  [
    'readers see the fold, and never less than before',
    'a reader that saw another model',
    rebuilds({ seen: [{ key: 'k', n: 1, hash: md5('m2') }] }),
  ],
  [
    'readers see the fold, and never less than before',
    'a reader that saw an empty model',
    rebuilds({ lost: ['k was read with 0 links after 2'] }),
  ],
  [
    'a rebuilt read model is the fold of its messages',
    'a rebuilt model without the last message',
    rebuilds({ kept: [{ key: 'k', n: 1, hash: md5('m1') }] }),
  ],
  ['a rebuilt read model is the fold of its messages', 'an empty rebuilt model', rebuilds({ kept: [] })],
  [
    'a rebuilt read model is the fold of its messages',
    'a difference between both models',
    rebuilds({ compared: [{ id: 1, tables: [{ table: 'chain', onlyOld: 1, onlyNew: 0, different: 0 }] }] }),
  ],
  [
    'a rebuild goes on, and stops at no message',
    'a rebuild that stopped',
    rebuilds({ stopped: ['rebuild 1 stopped at m1'] }),
  ],
  ['nothing stuck', 'a hold without a dead letter', { holds: [{ ...hold, reason: 'operator' }] }],
];

describe('the checker of the fault runs', () => {
  it('finds no violation in a good history', () => {
    expect(check(GOOD)).toEqual([]);
  });

  it('accepts messages that wait behind a dead letter', () => {
    const held = message(3, 'm4', { status: 'held' });
    const history = {
      ...GOOD,
      posted: [...GOOD.posted, posted('m4')],
      messages: [message(1, 'm1'), dead, held],
      effects: [GOOD.effects[0]!],
      chains: [{ key: 'k', n: 1, hash: md5('m1') }],
      deliveries: [GOOD.deliveries[0]!],
      arrivals: [GOOD.arrivals[0]!],
      holds: [hold],
    };
    expect(check(history)).toEqual([]);
    expect(check({ ...history, holds: [] })).not.toEqual([]);
  });

  it('accepts what an operator did: a late dead letter, a replay, a pause of a schedule', () => {
    const ticks = ['2026-01-01T00:00:01Z', '2026-01-01T00:00:04Z'].map((time, index) =>
      message(index + 3, `ticks/${time}`, { key: `tick-${index}` }),
    );
    const tick = Date.parse('2026-01-01T00:00:02Z');
    const history = {
      ...GOOD,
      messages: [...GOOD.messages, ...ticks],
      effects: [...GOOD.effects, ...ticks.map(({ id }) => ({ id, times: 1 }))],
      chains: [...GOOD.chains, ...ticks.map(({ id, key }) => ({ key, n: 1, hash: md5(id) }))],
      deliveries: [
        delivery('d1', 1, { reopened: true, attemptsTotal: 2 }),
        GOOD.deliveries[1]!,
        ...ticks.map(({ position, key }) => delivery(`d${position}`, position, { key, sequence: 1 })),
      ],
      arrivals: [
        arrival(1, 'd1', 1, { reply: '500' }),
        GOOD.arrivals[1]!,
        arrival(3, 'd1', 1),
        ...ticks.map(({ position, id, key }) =>
          arrival(position + 1, `d${position}`, 1, { body: bodyOf(id, key) }),
        ),
      ],
      operations: {
        keys: new Set<string>(),
        schedulePauses: [{ fromMs: tick, toMs: tick + 1_500 }],
        replayed: [{ replay: 1, delivery: 'd1', createdAtMs: 2 }],
        restarted: [{ stage: 'outbox' as const, position: 1, times: 1 }],
        ruled: [],
      },
    };
    expect(check(history)).toEqual([]);
  });

  it.each(PLANTED)('"%s" detects %s', (name, _fault, change) => {
    expect(check({ ...GOOD, ...change }).map((one) => one.check)).toContain(name);
  });
});

describe('the schedule of a fault run', () => {
  const faults: Fault[] = ['kill', 'freeze-at-point', 'postgres-fast', 'poison'];
  const of = (seed: number): ScheduledFault[] =>
    schedule({ seed, seconds: 60, replicas: 3, faults, everyMs: 1_000, leaseMs: 2_000 });

  it('is the same for the same seed, and differs for another', () => {
    expect(of(5)).toEqual(of(5));
    expect(of(5)).not.toEqual(of(6));
    expect(new Set(of(5).map(({ fault }) => fault))).toEqual(new Set(faults.slice(0, 3)));
  });
});

describe('the points of a fault run', () => {
  it('are methods that the service has', async () => {
    const { LOCATIONS } = await import('../../chaos/points.ts');
    const missing = LOCATIONS.filter(({ of, method }) => !(method in of.prototype));
    expect(missing.map(({ method }) => method)).toEqual([]);
  });
});

describe('the guards', () => {
  it('are all active in the service, and no setting disables one', async () => {
    const { GUARDS } = await import('../../src/lanes/lease.ts');
    const { SETTINGS } = await import('../../src/config/settings.schema.ts');
    expect(Object.values(GUARDS)).toEqual(Object.values(GUARDS).map(() => true));
    expect(Object.keys(SETTINGS).filter((name) => /guard|fence|chaos|without/i.test(name))).toEqual([]);
  });
});
