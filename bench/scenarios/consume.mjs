import { log } from '../harness/log.mjs';
import { natsVersion } from '../harness/nats.mjs';
import { pin } from '../harness/pin.mjs';
import { drainRounds } from '../harness/rounds.mjs';
import { compare } from '../harness/verdict.mjs';

const TOPIC = 'contenders/sluice-topic.mjs';
const WARM_UP = 30_000;

/** One consumer of a topic with 16 partitions over HTTP, 500 per poll, committed with the next poll. */
export const consume = {
  name: 'consume',
  async run(context) {
    const nats = natsVersion();
    const messages = context.quick ? 90_000 : 200_000;
    const fast = { seed: { messages }, drain: { warmUp: WARM_UP, until: messages } };
    const contenders = [
      { label: 'Sluice', module: TOPIC, ...fast },
      { label: 'SQL', module: 'contenders/sql-topic.mjs', ...fast },
      { label: 'pgmq', module: 'contenders/pgmq.mjs', ...fast },
      ...(nats ? [{ label: 'JetStream', module: 'contenders/jetstream.mjs', need: 'newer', ...fast }] : []),
    ];
    if (!nats) log('  NOT MEASURED: JetStream. nats-server is not installed (apt-get install nats-server).');
    const rows = await drainRounds(context, contenders);
    const against = (label, referenceName, target, note) =>
      compare({
        name: 'consume',
        ours: rows.get('Sluice'),
        reference: rows.get(label),
        referenceName,
        unit: 'messages/s',
        target,
        note,
      });
    return [
      against(
        'SQL',
        'the same SELECT and an UPDATE of offsets from Node',
        0.4,
        'no HTTP, no members, no fence',
      ),
      against('pgmq', "pgmq's statements, read and delete in 100s", 4),
      ...(nats
        ? [
            against(
              'JetStream',
              `JetStream (nats-server ${nats}), pull in 500s, explicit ack of each`,
              0.25,
              'file storage; it syncs to disk every two minutes, PostgreSQL at every commit',
            ),
          ]
        : []),
    ];
  },
};

/** The same while another session keeps a snapshot open: cursors must not grow. */
export const consumePinned = {
  name: 'consume-pinned',
  async run(context) {
    const seconds = context.quick ? 10 : 30;
    const messages = context.quick ? 300_000 : 1_500_000;
    const plain = { module: TOPIC, seed: { messages }, drain: { warmUp: WARM_UP, seconds, until: messages } };
    const rows = await drainRounds(context, [
      { label: 'alone', ...plain },
      { label: 'pinned', ...plain, beside: pin },
    ]);
    return [
      compare({
        name: 'consume-pinned',
        ours: rows.get('pinned'),
        reference: rows.get('alone'),
        referenceName: 'without a snapshot that is open elsewhere',
        unit: 'messages/s',
        target: 0.8,
      }),
    ];
  },
};

/** Processing with a topic against without, and with ten groups against one. */
export const processTopic = {
  name: 'process-topic',
  async run(context) {
    const messages = context.quick ? 20_000 : 60_000;
    const drain = { warmUp: messages / 5, until: messages };
    const contender = (label, more) => ({
      label,
      module: 'contenders/sluice.mjs',
      seed: { messages, ...more },
      drain,
    });
    const rows = await drainRounds(context, [
      contender('without'),
      contender('topic', { groups: 1 }),
      contender('ten groups', { groups: 10 }),
    ]);
    const against = (ours, reference, referenceName, target) =>
      compare({
        name: 'process-topic',
        ours: rows.get(ours),
        reference: rows.get(reference),
        referenceName,
        unit: 'messages/s',
        target,
      });
    return [
      against('topic', 'without', 'the same without a topic', 0.85),
      against('ten groups', 'topic', 'ten groups read the topic, against one', 0.97),
    ];
  },
};
