// `npm run bench [-- --only name,… --json file --quick --rounds n]`: side by side, on this machine, in one run.
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { build, checkNode, install } from '../scripts/ready.mjs';
import { log } from './harness/log.mjs';

const BENCH = import.meta.dirname;
const { values: options } = parseArgs({
  options: {
    only: { type: 'string' },
    json: { type: 'string', default: 'bench-results.json' },
    quick: { type: 'boolean', default: false },
    rounds: { type: 'string' },
  },
});

checkNode();
install(log);
if (!process.env.SLUICE_DIST) build(log);
// Peers are not dependencies of the service: they have a lock file of their own.
install(log, 'bench');

const { SCENARIOS } = await import('./scenarios/all.mjs');
const chosen = choose(options.only);
const { endChildren } = await import('./harness/process.mjs');
const { startServer } = await import('./harness/server.mjs');
const { Noise } = await import('./harness/noise.mjs');
const { table, writePlots } = await import('./harness/report.mjs');
const { nodeVersions } = await import('./harness/versions.mjs');

const server = await startServer();
for (const signal of ['SIGINT', 'SIGTERM'])
  process.once(signal, () => {
    endChildren();
    void server.stop().then(() => process.exit(1));
  });
try {
  await run();
} finally {
  // After a failure they would report a database that is gone.
  endChildren();
  await server.stop();
}

async function run() {
  const noise = new Noise(server);
  await noise.prepare();
  const context = {
    server,
    noise,
    quick: options.quick,
    rounds: Number(options.rounds ?? (options.quick ? 3 : 5)),
    versions: peerVersions(),
  };
  const results = [];
  for (const [index, scenario] of chosen.entries()) {
    log(`${index + 1}/${chosen.length} ${scenario.name}`);
    results.push(...(await scenario.run(context)));
    writeFileSync(options.json, `${JSON.stringify({ ...(await about(context)), results }, null, 2)}\n`);
  }
  if (!options.quick) writePlots(results);
  const { cpu, statement, samples } = noise.summary();
  process.stdout.write(`\n${table(results)}\n\n`);
  process.stdout.write(
    `noise, slowest against fastest of ${samples}: CPU loop ${cpu} ×, 50 small commits ${statement} ×\n`,
  );
  process.stdout.write(`written to ${options.json}${options.quick ? '' : ' and docs/plots/'}\n`);
}

async function about({ noise, versions }) {
  const commit = spawnSync('git', ['rev-parse', '--short', 'HEAD'], {
    cwd: BENCH,
    encoding: 'utf8',
  }).stdout.trim();
  return {
    date: new Date().toISOString(),
    commit,
    quick: options.quick,
    machine: { cpus: cpus().length, model: cpus()[0]?.model },
    versions: { ...nodeVersions(), postgres: await server.version(), ...versions },
    noise: noise.summary(),
  };
}

function choose(only) {
  if (!only) return SCENARIOS;
  const names = only.split(',');
  const unknown = names.find((name) => !SCENARIOS.some((scenario) => scenario.name === name));
  if (unknown) {
    log(
      `bench: there is no scenario "${unknown}"; there are ${SCENARIOS.map(({ name }) => name).join(', ')}`,
    );
    process.exit(1);
  }
  return SCENARIOS.filter(({ name }) => names.includes(name));
}

function peerVersions() {
  const { dependencies } = JSON.parse(readFileSync(join(BENCH, 'package.json'), 'utf8'));
  return dependencies;
}
