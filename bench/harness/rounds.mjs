import { runVerb } from './process.mjs';
import { say } from './say.mjs';
import { median } from './statistics.mjs';

/**
 * One template database per contender, seeded once; then rounds A B C, A B C …, each in a fresh clone and a fresh
 * process, so that whatever else the machine does falls on all of them alike.
 */
export async function drainRounds({ server, noise, rounds }, contenders) {
  for (const contender of contenders) await makeTemplate(server, contender);
  const rows = new Map(contenders.map(({ label }) => [label, []]));
  for (let round = 1; round <= rounds; round++) {
    for (const contender of inTurn(contenders, round)) {
      await noise.measure();
      const row = await drainOnce(server, contender);
      rows.get(contender.label).push(row);
      say(`    round ${round}/${rounds}  ${contender.label.padEnd(34)} ${describe(row)}`);
    }
  }
  for (const contender of contenders) await server.drop(templateOf(contender));
  return rows;
}

/** Every other round the other way round: nobody is always the one after the heaviest. */
export function inTurn(contenders, round) {
  return round % 2 ? contenders : contenders.toReversed();
}

async function makeTemplate(server, contender) {
  const { module, need, seed } = contender;
  say(`  preparing ${contender.label}`);
  const url = await server.create(templateOf(contender));
  await runVerb(module, 'setup', { url }, { need }).result;
  if (seed) await runVerb(module, 'seed', { url, ...seed }, { need }).result;
}

function templateOf({ label }) {
  return `template_${label.toLowerCase().replaceAll(/[^a-z0-9]+/g, '_')}`;
}

/** `replicas` processes at once; the time is from when the first of them is warm until the last is over. */
async function drainOnce(server, contender) {
  const { module, need, drain, nodeFlags, replicas = 1, beside } = contender;
  const url = await server.create('round', templateOf(contender));
  await server.settle();
  const end = await beside?.(url);
  let before;
  let after;
  let warmAt;
  let overAt;
  const onMessage = ({ warm, over }) => {
    if (warm) {
      before ??= server.cpuSeconds();
      warmAt ??= performance.now();
    }
    if (over) {
      after = server.cpuSeconds();
      overAt = performance.now();
    }
  };
  const runs = Array.from({ length: replicas }, () =>
    runVerb(module, 'drain', { url, ...drain }, { need, nodeFlags, onMessage }),
  );
  const results = await Promise.all(runs.map(({ result }) => result));
  await end?.();
  const messages = results.reduce((sum, one) => sum + one.messages, 0);
  const seconds = replicas > 1 ? (overAt - warmAt) / 1000 : results[0].seconds;
  const nodeCpu = results.reduce((sum, one) => sum + one.nodeCpu, 0);
  await server.drop('round');
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
