import { log } from '../harness/log.mjs';
import { natsVersion, startNats } from '../harness/nats.mjs';
import { drainRounds } from '../harness/rounds.mjs';
import { compare } from '../harness/verdict.mjs';

export const name = 'sinks';

/** A backlog of deliveries published to a JetStream stream, against the same number of loops of the client itself. */
export async function run(context) {
  if (!natsVersion()) {
    log('  NOT MEASURED: nats-server is not installed (apt-get install nats-server).');
    return [];
  }
  const server = await startNats();
  const nats = `nats://127.0.0.1:${server.port}`;
  try {
    const lines = [];
    for (const lanes of [16, 64]) lines.push(await published(context, nats, lanes));
    return lines;
  } finally {
    await server.stop();
  }
}

async function published(context, nats, lanes) {
  const messages = context.quick ? 10_000 : 40_000;
  const drain = { warmUp: messages / 5, until: messages, nats };
  const target = { servers: [nats], subject: 'sink.{key}', stream: 'SINK' };
  const listeners = [{ name: 'one', mode: 'nats', nats: target, lanes }];
  const [ours, theirs] = [`Sluice to NATS, ${lanes} lanes`, `${lanes} loops of the client`];
  const rows = await drainRounds(context, [
    { label: ours, module: 'contenders/sluice-sink.mjs', seed: { messages, listeners }, drain },
    { label: theirs, module: 'contenders/bare-nats.mjs', drain: { ...drain, concurrency: lanes } },
  ]);
  return compare({
    name,
    ours: rows.get(ours),
    reference: rows.get(theirs),
    referenceName: `${lanes} loops of the client`,
    unit: 'deliveries/s',
    target: 0.6,
    note: 'the loops read, order and record nothing',
  });
}
