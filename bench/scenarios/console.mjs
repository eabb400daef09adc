import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { BROWSER } from '../harness/browser.mjs';
import { log } from '../harness/log.mjs';
import { ROOT } from '../harness/paths.mjs';
import { runVerb } from '../harness/process.mjs';
import { listen, whileServing } from '../harness/serving.mjs';
import { percentile } from '../harness/statistics.mjs';
import { compare, within } from '../harness/verdict.mjs';

/**
 * The console: how soon somebody sees something, and what those who look cost. Numbers of the browser are skipped where
 * there is none.
 */
export const name = 'console';

const SLUICE = 'contenders/sluice.mjs';
const BACKLOG = 5_000;

export async function run(context) {
  return [
    ...sizes(),
    ...(BROWSER ? await inBrowser(context) : skipped()),
    ...(await costs(context)),
    await throughput(context),
  ];
}

function skipped() {
  log('    console: no Chromium in PATH, so nothing is measured in a browser');
  return [];
}

/** What the browser loads for the first view, compressed. */
function sizes() {
  const folder = join(ROOT, 'dist/console');
  const index = readFileSync(join(folder, 'index.html'), 'utf8');
  const kilobytes = (pattern) =>
    [...index.matchAll(pattern)]
      .map(([, file]) => gzipSync(readFileSync(join(folder, file)), { level: 9 }).length / 1024)
      .reduce((sum, size) => sum + size, 0);
  const line = (what, pattern, limit) =>
    within({
      name: `console, ${what}`,
      values: [kilobytes(pattern)],
      unit: 'KB gz',
      limit,
      referenceName: 'bar',
    });
  return [
    line('JavaScript of the first view', /"\.\/(assets\/[^"]+\.js)"/g, 40),
    line('CSS', /"\.\/(assets\/[^"]+\.css)"/g, 6),
  ];
}

/** Replicas on one database, each with its roles, and a backlog. */
async function withReplicas(server, roles, use) {
  const database = await server.create('console');
  await runVerb(SLUICE, 'setup', { url: database }).result;
  await runVerb(SLUICE, 'seed', { url: database, messages: BACKLOG }).result;
  const serve = (ROLES) => listen(SLUICE, 'serve', { url: database, env: { ROLES } });
  const replicas = [];
  for (const some of roles) replicas.push(await serve(some));
  await untilQuiet(server);
  const result = await use(replicas.map(({ url }) => new URL(url).origin));
  for (const replica of replicas) {
    for (const word of ['warm', 'over', 'stop']) replica.send(word);
    await replica.result;
  }
  await server.drop('console');
  return result;
}

async function untilQuiet(server) {
  const rates = async () => {
    const { rows } = await server.admin.query(TRANSACTIONS);
    return Number(rows[0].count);
  };
  // A replica that processes commits many times per second.
  for (let last = await rates(); ; ) {
    await delay(1_000);
    const next = await rates();
    if (next - last < 20) return;
    last = next;
  }
}

async function inBrowser({ server, noise, quick }) {
  const count = quick ? 20 : 100;
  await noise.measure();
  return withReplicas(server, ['api,inbox,upkeep', 'api'], async ([first, second]) => {
    const { times, nodes } = await runVerb('harness/look.mjs', 'firstViews', { url: first, count }).result;
    log(`    first view ${described(times)}, ${nodes} nodes`);
    await noise.measure();
    const options = { url: first, changedAt: [first, second], count: count / 2 };
    const [here, there] = await runVerb('harness/look.mjs', 'changes', options).result;
    log(`    a change at the same replica ${described(here)}, at the other one ${described(there)}`);
    const p95 = (what, values, limit, referenceName) =>
      within({
        name: `console, ${what}, p95`,
        values: [percentile(values, 0.95)],
        unit: 'ms',
        limit,
        referenceName,
      });
    return [
      p95('first view with data', times, 400, `nothing cached, ${count} times`),
      p95('from a change to the screen', here, 1_000, `at the same replica, ${here.length} times`),
      p95('from a change to the screen', there, 1_000, `at another replica, ${there.length} times`),
    ];
  });
}

function described(values) {
  const ms = (share) => Math.round(percentile(values, share));
  return `p50 ${ms(0.5)} ms, p95 ${ms(0.95)} ms`;
}

/** Transactions that began in the database so far: a snapshot is one. */
const TRANSACTIONS = `SELECT xact_commit + xact_rollback AS count FROM pg_stat_database WHERE datname = 'console'`;
const VIEWERS = [1, 20, 100];

/** Transactions per second with viewers, less those without. */
async function costs({ server, quick }) {
  const seconds = quick ? 8 : 30;
  // Nothing else works on the database: what a replica with other roles does varies more than what viewers cost.
  return withReplicas(server, ['api'], async ([url]) => {
    const measured = async () => {
      const read = async () => Number((await server.admin.query(TRANSACTIONS)).rows[0].count);
      const before = await read();
      await delay(seconds * 1_000);
      return ((await read()) - before) / seconds;
    };
    const none = await measured();
    const lines = [];
    for (const viewers of VIEWERS) {
      const watching = await listen('harness/watch.mjs', 'watch', { url, viewers });
      const more = (await measured()) - none;
      watching.send('stop');
      await watching.result;
      log(`    ${viewers} viewers: ${more.toFixed(2)} transactions per second more than ${none.toFixed(2)}`);
      lines.push(
        within({
          name: `console, transactions for ${viewers} viewers`,
          values: [more],
          unit: 'per second',
          limit: 1.5,
          referenceName: 'one snapshot per second, and one for each action',
        }),
      );
    }
    return lines;
  });
}

/** Posts and processing with 20 viewers against the same without. */
async function throughput({ server, noise, rounds, quick }) {
  const seconds = quick ? 5 : 15;
  const rows = { 0: [], 20: [] };
  for (let round = 1; round <= rounds; round++) {
    for (const viewers of round % 2 ? [0, 20] : [20, 0]) {
      await noise.measure();
      const row = await loadedWith(server, viewers, seconds);
      rows[viewers].push(row);
      log(`    round ${round}/${rounds}  ${viewers} viewers ${Math.round(row.rate)}/s`);
    }
  }
  return compare({
    name: 'console, throughput with 20 viewers',
    ours: rows[20],
    reference: rows[0],
    referenceName: 'without viewers',
    unit: 'messages/s',
    target: 0.98,
  });
}

async function loadedWith(server, viewers, seconds) {
  const sluice = { module: SLUICE, env: { ROLES: 'api,inbox' } };
  const { loaded, cpuOver } = await whileServing(server, sluice, async (target, _database, onMessage) => {
    const url = new URL(target).origin;
    const watching = viewers ? await listen('harness/watch.mjs', 'watch', { url, viewers }) : undefined;
    const options = { url: target, connections: 64, warmUpSeconds: 2, seconds };
    const result = await runVerb('harness/load.mjs', 'load', options, { onMessage }).result;
    watching?.send('stop');
    await watching?.result;
    return result;
  });
  return { rate: loaded.messages / loaded.seconds, ...cpuOver(loaded.messages) };
}
