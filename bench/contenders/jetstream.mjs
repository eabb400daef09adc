import { cpuSecondsOf } from '../harness/cpu.mjs';
import { startNats } from '../harness/nats.mjs';
import { Progress } from '../harness/progress.mjs';
import { keyOf, payloadOf } from '../harness/workload.mjs';

export async function setup() {}

/** The messages are published in `drain`: JetStream's files are not in the database that is cloned for each round. */
export async function seed() {}

/** Pulled in 500s by one consumer, each message acknowledged, without waiting for that; on file storage, one replica. */
export async function drain({ url, complete, ...counts }) {
  const messages = counts.until;
  const { connect } = await import('@nats-io/transport-node');
  const { AckPolicy, jetstream, jetstreamManager } = await import('@nats-io/jetstream');
  const server = await startNats();
  let cpuBefore;
  const progress = new Progress(counts, () => {
    cpuBefore = cpuSecondsOf(server.pid);
  });
  const connection = await connect({ servers: `127.0.0.1:${server.port}` });
  const manager = await jetstreamManager(connection);
  await manager.streams.add({ name: 'bench', subjects: ['bench.>'], storage: 'file' });
  const stream = jetstream(connection);
  for (let from = 0; from < messages; from += 500) {
    const batch = Array.from({ length: Math.min(500, messages - from) }, (_, n) =>
      stream.publish(`bench.${keyOf(from + n)}`, JSON.stringify(payloadOf(from + n))),
    );
    await Promise.all(batch);
  }
  await manager.consumers.add('bench', {
    durable_name: 'all',
    ack_policy: AckPolicy.Explicit,
    max_ack_pending: 10_000,
  });
  const consumer = await stream.consumers.get('bench', 'all');
  for (let count = 0; count < messages; ) {
    for await (const message of await consumer.fetch({ max_messages: progress.batch(500), expires: 5_000 })) {
      message.json();
      message.ack();
      count += 1;
      progress.handled();
    }
  }
  const result = await progress.over();
  const serverCpu = cpuSecondsOf(server.pid) - cpuBefore || 0;
  await connection.drain();
  await server.stop();
  return { ...result, nodeCpu: result.nodeCpu + serverCpu };
}
