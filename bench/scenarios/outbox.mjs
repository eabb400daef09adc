import { log } from '../harness/log.mjs';
import { runVerb } from '../harness/process.mjs';
import { drainRounds, inTurn } from '../harness/rounds.mjs';
import { listen, whileServing } from '../harness/serving.mjs';
import { compare } from '../harness/verdict.mjs';

const OUTBOX = 'contenders/sluice-outbox.mjs';

/** One receiver for all contenders, in its own process. */
async function withReceiver(work) {
  const receiving = await listen('harness/receiver.mjs', 'receive', {});
  try {
    return await work(receiving.url);
  } finally {
    receiving.send('stop');
    await receiving.result;
  }
}

const RECEIVERS = [
  { lanes: 16, path: '/ok', what: 'a receiver that responds immediately' },
  { lanes: 64, path: '/ok', what: 'a receiver that responds immediately' },
  { lanes: 16, path: '/takes-1', what: 'a receiver that takes 1 ms' },
  { lanes: 16, path: '/takes-10', what: 'a receiver that takes 10 ms' },
];

/** A backlog of deliveries of one listener, sent over its lanes, against the same number of loops that only post. */
export const deliver = {
  name: 'deliver',
  run(context) {
    return withReceiver(async (receiver) => {
      const lines = [];
      for (const { lanes, path, what } of RECEIVERS) {
        const messages = (context.quick ? 10_000 : 40_000) / (path === '/ok' ? 1 : 2);
        const drain = { warmUp: messages / 5, until: messages };
        const listeners = [{ name: 'one', url: receiver + path, lanes }];
        const bare = { ...drain, receiver, path, concurrency: lanes };
        const rows = await drainRounds(context, [
          { label: `Sluice, ${lanes} lanes`, module: OUTBOX, seed: { messages, listeners }, drain },
          { label: `${lanes} loops of undici`, module: 'contenders/bare-undici.mjs', drain: bare },
        ]);
        lines.push(
          compare({
            name: 'deliver',
            ours: rows.get(`Sluice, ${lanes} lanes`),
            reference: rows.get(`${lanes} loops of undici`),
            referenceName: `${lanes} loops of undici, ${what}`,
            unit: 'deliveries/s',
            target: 0.6,
            note: 'the loops sign nothing, keep no order and store nothing',
          }),
        );
      }
      return lines;
    });
  },
};

const PEERS = [
  { label: 'graphile-worker', module: 'contenders/graphile-worker.mjs', from: 'addJob to its task' },
  { label: 'pg-boss', module: 'contenders/pg-boss.mjs', from: 'send to its handler' },
];

/** From the post to the webhook, at 20 per second, without other load. */
export const latency = {
  name: 'latency',
  async run(context) {
    const { noise, rounds, versions } = context;
    const seconds = context.quick ? 8 : 20;
    const rows = new Map(['ours', 'least', ...PEERS.map(({ label }) => label)].map((label) => [label, []]));
    for (let round = 1; round <= rounds; round++) {
      for (const contender of inTurn([undefined, ...PEERS], round)) {
        await noise.measure();
        const measured = contender
          ? { [contender.label]: await peerLatency(context, contender, seconds) }
          : await ourLatency(context, seconds);
        for (const [label, row] of Object.entries(measured)) {
          rows.get(label).push(row);
          const [p50, p99] = [row.p50, row.p99].map((ms) => ms.toFixed(1));
          log(`    round ${round}/${rounds}  ${label.padEnd(34)} p50 ${p50} ms, p99 ${p99} ms`);
        }
      }
    }
    const against = (field, label, referenceName, target) =>
      compare({
        name: 'latency',
        ours: rows.get('ours'),
        reference: rows.get(label),
        referenceName: `${referenceName}, ${field}`,
        unit: 'ms',
        target,
        field,
        atMost: true,
      });
    const peers = PEERS.map(({ label, from }) =>
      against('p50', label, `${label} ${versions[label]}, ${from}`),
    );
    return [
      against('p50', 'least', 'one insert and one HTTP round trip', 3),
      against('p99', 'least', 'one insert and one HTTP round trip'),
      ...peers,
    ];
  },
};

function ourLatency({ server }, seconds) {
  const env = { ROLES: 'api,inbox,outbox', EGRESS_ALLOW: '127.0.0.0/8' };
  const sluice = { module: 'contenders/sluice.mjs', env };
  return withReceiver(async (receiver) => {
    const { loaded } = await whileServing(server, sluice, (target, database, onMessage) => {
      const options = { service: new URL(target).origin, receiver, database, seconds };
      return runVerb('harness/post-and-receive.mjs', 'postAndReceive', options, { onMessage }).result;
    });
    return loaded;
  });
}

async function peerLatency({ server }, { module }, seconds) {
  const url = await server.create('round');
  const need = 'newer';
  await runVerb(module, 'setup', { url }, { need }).result;
  await server.settle();
  const measured = await runVerb(module, 'latency', { url, seconds }, { need }).result;
  await server.drop('round');
  return measured;
}

const FAILURES = ['hang', 'reset', 'drip'];

/** Of ten listeners 1, 3 or 9 hang, reset or drip: the rate of the others, against the same ones alone. */
export const slowListener = {
  name: 'slow-listener',
  run(context) {
    const messages = context.quick ? 2_000 : 6_000;
    return withReceiver(async (receiver) => {
      const lines = [];
      for (const sick of [1, 3, 9]) {
        const healthy = Array.from({ length: 10 - sick }, (_, n) => ({
          name: `fine-${n}`,
          url: `${receiver}/ok`,
        }));
        const ill = Array.from({ length: sick }, (_, n) => ({
          name: `sick-${n}`,
          url: `${receiver}/${FAILURES[n % FAILURES.length]}`,
        }));
        const each = sick === 9 ? messages * 5 : messages;
        const total = each * healthy.length;
        const drain = { warmUp: total / 5, until: total, complete: false };
        const rows = await drainRounds(context, [
          { label: 'alone', module: OUTBOX, seed: { messages: each, listeners: healthy }, drain },
          {
            label: `beside ${sick}`,
            module: OUTBOX,
            seed: { messages: each, listeners: [...ill, ...healthy] },
            drain,
          },
        ]);
        lines.push(
          compare({
            name: 'slow-listener',
            ours: rows.get(`beside ${sick}`),
            reference: rows.get('alone'),
            referenceName: `the ${10 - sick} others alone (${sick} of 10 hang, reset or drip)`,
            unit: 'deliveries/s',
            target: 0.9,
          }),
        );
      }
      return lines;
    });
  },
};

/** Ten busy listeners, beside 990 without a delivery. */
export const manyListeners = {
  name: 'many-listeners',
  run(context) {
    const messages = context.quick ? 2_000 : 6_000;
    return withReceiver(async (receiver) => {
      const busy = Array.from({ length: 10 }, (_, n) => ({ name: `busy-${n}`, url: `${receiver}/ok` }));
      const idle = Array.from({ length: 990 }, (_, n) => ({
        name: `idle-${n}`,
        url: `${receiver}/ok`,
        idle: true,
      }));
      const drain = { warmUp: messages * 2, until: messages * 10 };
      const rows = await drainRounds(context, [
        { label: 'ten', module: OUTBOX, seed: { messages, listeners: busy }, drain },
        { label: 'a thousand', module: OUTBOX, seed: { messages, listeners: [...busy, ...idle] }, drain },
      ]);
      return [
        compare({
          name: 'many-listeners',
          ours: rows.get('a thousand'),
          reference: rows.get('ten'),
          referenceName: 'the ten busy ones without 990 idle ones',
          unit: 'deliveries/s',
          target: 0.9,
        }),
      ];
    });
  },
};
