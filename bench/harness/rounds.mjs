import { log } from './log.mjs';
import { runVerb } from './process.mjs';
import { drainTogether } from './replicas.mjs';
import { median } from './statistics.mjs';

/**
 * One template database per contender, seeded once; then rounds A B C, A B C …, each in a fresh clone and a fresh
 * process, so that other load on the machine affects all of them alike.
 */
export async function drainRounds({ server, noise, rounds }, contenders) {
  for (const contender of contenders) await makeTemplate(server, contender);
  const rows = new Map(contenders.map(({ label }) => [label, []]));
  for (let round = 1; round <= rounds; round++) {
    for (const contender of inTurn(contenders, round)) {
      await noise.measure();
      const row = await inClone(server, contender);
      rows.get(contender.label).push(row);
      log(`    round ${round}/${rounds}  ${contender.label.padEnd(34)} ${describe(row)}`);
    }
  }
  for (const contender of contenders) await server.drop(templateOf(contender));
  return rows;
}

/** Every other round in reverse order, so that no contender always runs after the heaviest one. */
export function inTurn(contenders, round) {
  return round % 2 ? contenders : contenders.toReversed();
}

async function makeTemplate(server, contender) {
  const { module, need, seed } = contender;
  log(`  preparing ${contender.label}`);
  const url = await server.create(templateOf(contender));
  await runVerb(module, 'setup', { url }, { need }).result;
  if (seed) await runVerb(module, 'seed', { url, ...seed }, { need }).result;
}

function templateOf({ label }) {
  return `template_${label.toLowerCase().replaceAll(/[^a-z0-9]+/g, '_')}`;
}

async function inClone(server, contender) {
  const url = await server.create('round', templateOf(contender));
  await server.settle();
  const row = await (contender.replicas ? drainTogether : drainOnce)(server, contender, url);
  await server.drop('round');
  return row;
}

async function drainOnce(server, contender, url) {
  const { module, need, drain, nodeFlags, beside } = contender;
  const end = await beside?.(url);
  let before;
  let after;
  const onMessage = ({ warm, over }) => {
    if (warm) before = server.cpuSeconds();
    if (over) after = server.cpuSeconds();
  };
  const { messages, seconds, nodeCpu } = await runVerb(
    module,
    'drain',
    { url, ...drain },
    { need, nodeFlags, onMessage },
  ).result;
  await end?.();
  return {
    rate: messages / seconds,
    seconds,
    nodeMicros: (nodeCpu / messages) * 1e6,
    postgresMicros: after === undefined ? undefined : ((after - before) / messages) * 1e6,
  };
}

export function describe({ rate, nodeMicros, postgresMicros }) {
  const cpu = [nodeMicros, postgresMicros].map((micros) => (micros === undefined ? '–' : Math.round(micros)));
  return `${String(Math.round(rate)).padStart(7)}/s   CPU per message: Node ${cpu[0]} µs, Postgres ${cpu[1]} µs`;
}

/** Medians over the rounds. */
export function summary(rows) {
  const of = (field) => median(rows.map((row) => row[field]));
  return { rate: of('rate'), nodeMicros: of('nodeMicros'), postgresMicros: of('postgresMicros') };
}
