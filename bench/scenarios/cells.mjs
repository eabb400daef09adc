import { log } from '../harness/log.mjs';
import { runVerb } from '../harness/process.mjs';
import { describe, inTurn } from '../harness/rounds.mjs';
import { whileServing } from '../harness/serving.mjs';
import { compare } from '../harness/verdict.mjs';

/**
 * One replica accepts and processes messages in one database, in two cells and in four. All of them are on the same server and
 * cores, so that the rate cannot grow: what counts is whether a message costs more.
 */
export const name = 'cells';

const module = 'contenders/sluice-cells.mjs';
/** Of each cell: as many producers as one database has, so that as many posts share a commit. */
const CONNECTIONS = 64;
const COUNTS = [1, 2, 4];

export async function run(context) {
  const { noise, rounds } = context;
  const rows = new Map(COUNTS.map((count) => [count, []]));
  for (let round = 1; round <= rounds; round++) {
    for (const count of inTurn(COUNTS, round)) {
      await noise.measure();
      const row = await inCells(context, count);
      rows.get(count).push(row);
      const label = `${count} ${count === 1 ? 'database' : 'cells'}`;
      log(
        `    round ${round}/${rounds}  ${label.padEnd(12)} ${describe(row)}, shares ${row.shares.join(' ')}`,
      );
    }
  }
  return COUNTS.slice(1).map((count) =>
    compare({
      name,
      ours: rows.get(count),
      reference: rows.get(1),
      referenceName: `one database, against ${count} cells`,
      unit: 'µs of CPU per message',
      field: 'micros',
      atMost: true,
      target: 1.1,
    }),
  );
}

async function inCells({ server, quick }, count) {
  const others = Array.from({ length: count - 1 }, (_, at) => `cell_${at + 1}`);
  for (const other of others) {
    const url = await server.create(other);
    await runVerb(module, 'setup', { url, isHome: false }).result;
  }
  const urls = ['round', ...others].map(server.urlOf);
  const names = ['home', ...others.map((other) => other.replace('_', ''))];
  const env = {
    ROLES: 'api,inbox',
    ...(count > 1 ? { CELLS: names.map((one, at) => `${one}=${urls[at]}`).join(',') } : {}),
  };
  const { loaded, cpuOver } = await whileServing(server, { module, env }, (target, _database, onMessage) => {
    const size = { warmUp: quick ? 5_000 : 20_000, messages: quick ? 10_000 : 60_000 };
    const options = { url: target, databases: urls, connections: CONNECTIONS * count, ...size };
    return runVerb('harness/post-until-settled.mjs', 'postUntilSettled', options, { onMessage }).result;
  });
  for (const other of others) await server.drop(other);
  const cpu = cpuOver(loaded.messages);
  return {
    rate: loaded.messages / loaded.seconds,
    shares: loaded.shares,
    ...cpu,
    micros: cpu.nodeMicros + cpu.postgresMicros,
  };
}
