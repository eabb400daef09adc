import { log } from '../harness/log.mjs';
import { runVerb } from '../harness/process.mjs';
import { describe, inTurn } from '../harness/rounds.mjs';
import { whileServing } from '../harness/serving.mjs';
import { startStandby } from '../harness/standby.mjs';
import { compare } from '../harness/verdict.mjs';

/**
 * Reads of a read model with no, one and two standbys, while messages are posted and processed. Both standbys replicate in every
 * round, so only the reads move. On one machine they share its cores: what counts is what a read costs the primary.
 */
export const name = 'reads';

const module = 'contenders/sluice-reads.mjs';
const CONTENDERS = [0, 1, 2].map((standbys) => ({ label: `${standbys} standbys`, standbys }));

export async function run(context) {
  const { server, noise, rounds } = context;
  await server.admin.query(`ALTER SYSTEM SET wal_keep_size = '1GB'`);
  await server.admin.query('SELECT pg_reload_conf()');
  const standbys = [await startStandby(server, 'first'), await startStandby(server, 'second')];
  const rows = new Map(CONTENDERS.map(({ label }) => [label, []]));
  try {
    for (let round = 1; round <= rounds; round++) {
      for (const { label, standbys: count } of inTurn(CONTENDERS, round)) {
        await noise.measure();
        const row = await readFrom(server, standbys.slice(0, count), context.quick ? 4 : 10);
        rows.get(label).push(row);
        const others = `standbys ${Math.round(row.standbyMicros)} µs, ${Math.round(row.posts)} posts/s`;
        log(`    round ${round}/${rounds}  ${label.padEnd(12)} ${describe(row)}, ${others}`);
      }
    }
  } finally {
    await Promise.all(standbys.map((standby) => standby.stop()));
  }
  return CONTENDERS.slice(1).flatMap(({ label }) => resultsOf(rows, label));
}

function resultsOf(rows, label) {
  const given = {
    ours: rows.get(label),
    reference: rows.get('0 standbys'),
    referenceName: 'the primary alone',
  };
  return [
    compare({ ...given, name: `${name}, ${label}`, unit: 'reads/s' }),
    compare({
      ...given,
      name: `${name}, ${label}`,
      unit: 'µs of the primary per read',
      field: 'postgresMicros',
      atMost: true,
    }),
  ];
}

async function readFrom(server, standbys, seconds) {
  const env = standbys.length === 0 ? {} : { READ_DATABASE_URL: urlOf(server, standbys) };
  const standbyCpu = () => standbys.reduce((total, standby) => total + standby.cpuSeconds(), 0);
  const cpu = [];
  const { loaded, cpuOver } = await whileServing(server, { module, env }, (url, _database, onMessage) => {
    const options = { url, standbys: standbys.length, warmUpSeconds: 3, seconds };
    const counting = (message) => {
      cpu.push(standbyCpu());
      onMessage(message);
    };
    return runVerb('harness/read-and-post.mjs', 'readAndPost', options, { onMessage: counting }).result;
  });
  const { messages, posts, seconds: took } = loaded;
  return {
    rate: messages / took,
    posts: posts / took,
    standbyMicros: ((cpu[1] - cpu[0]) / messages) * 1e6,
    ...cpuOver(messages),
  };
}

/** All of them in one URL, as an operator names them. */
function urlOf(server, standbys) {
  const url = server.urlOf('round');
  return url.replace(new URL(url).host, standbys.map(({ host }) => host).join(','));
}
