// `npm run upgrade-check [-- --from <ref>]`: runs an earlier version and this one side by side on this version's schema.
// Exit code 0: they work together. 1: they do not. 2: it could not be tried; the output names the reason.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { build, checkNode, install, root } from './ready.mjs';

const KEY = 'sk_upgrade_0123456789abcdefghij';
const TYPE = 'urn:ekp:events/candidate-applied';
const MESSAGES = 20;
/** The receiver refuses every Nth webhook once. */
const REFUSED_EVERY = 7;
const HELD_KEY = 'key-held';
const TIMEOUT_MS = 60_000;

const { values } = parseArgs({ options: { from: { type: 'string' } } });
const room = mkdtempSync(join(tmpdir(), 'sluice-upgrade-'));
const children = new Set();
/** Ids of the posted messages by key, in the order accepted. */
const posted = new Map();
let tree;
let postgres;
let receiver;
try {
  process.exitCode = await check();
} catch (error) {
  say(`FAILED: ${error.message}`);
  process.exitCode = 1;
} finally {
  for (const child of children) child.kill('SIGKILL');
  receiver?.close();
  await postgres?.stop();
  if (tree) git('worktree', 'remove', '--force', tree);
  rmSync(room, { recursive: true, force: true, maxRetries: 5 });
}

async function check() {
  const from = earlier(values.from);
  if (from.skipped) {
    say(`not tried: ${from.skipped}`);
    return 2;
  }
  checkNode();
  install();
  build(say);
  say(`building ${from.name} …`);
  const before = checkOut(from.commit);
  const now = join(root, 'dist');
  postgres = await startPostgres(now);
  receiver = await startReceiver();

  say(`${from.name} creates its schema and stores messages; this version migrates`);
  await migrate(before);
  const left = await withReplicas([[before, 'api']], async ([old]) => {
    await putListener(old);
    return post(old, 'left-behind');
  });
  await migrate(now);
  await together(`${from.name} accepts, this version processes and delivers`, left, [
    [before, 'api'],
    [now, 'api,inbox,outbox,upkeep'],
  ]);
  await together(
    `this version accepts, ${from.name} processes and delivers`,
    [],
    [
      [now, 'api'],
      [before, 'api,inbox,outbox,upkeep'],
    ],
  );
  await together(
    'both do everything',
    [],
    [
      [before, 'api,inbox,outbox,upkeep'],
      [now, 'api,inbox,outbox,upkeep'],
    ],
  );
  await listenerOfThisVersion(`a listener that this version puts while ${from.name} runs`, before, now);
  await together(
    `rolled back: ${from.name} alone on this version's schema`,
    [],
    [[before, 'api,inbox,outbox,upkeep']],
  );
  say(`${from.name} and this version get along`);
  return 0;
}

/** The version to compare with: the one given, else the second last commit that changed the shipped files. */
function earlier(ref) {
  const commits = ref
    ? git('rev-parse', '--verify', '--quiet', `${ref}^{commit}`)
    : git('log', '-2', '--format=%H', '--', 'src', 'migrations');
  const commit = commits.stdout?.trim().split('\n')[ref ? 0 : 1];
  if (!commit)
    return {
      skipped: ref ? `git knows no "${ref}"` : 'the history has no earlier version; name one with --from',
    };
  const edited = git(
    'diff',
    '--name-only',
    '--diff-filter=MDR',
    commit,
    '--',
    'migrations',
    'src/read-models/*/migrations/*',
  );
  const names = edited.stdout.trim().replaceAll('\n', ', ');
  if (names)
    return {
      skipped: `a migration was edited since ${commit.slice(0, 7)}, which is allowed only before the first release: ${names}`,
    };
  return { commit, name: ref ?? commit.slice(0, 7) };
}

/** Checks out its sources into a separate folder, with the packages of this version: nothing is downloaded. */
function checkOut(commit) {
  tree = join(room, 'tree');
  if (git('worktree', 'add', '--detach', tree, commit).status !== 0)
    throw new Error(`cannot check out ${commit}`);
  symlinkSync(join(root, 'node_modules'), join(tree, 'node_modules'));
  const built = spawnSync(process.execPath, [join(root, 'node_modules/@nestjs/cli/bin/nest.js'), 'build'], {
    cwd: tree,
    encoding: 'utf8',
  });
  if (!existsSync(join(tree, 'dist/src/main.js')))
    throw new Error(`${commit} cannot be built:\n${built.stdout}${built.stderr}`);
  return join(tree, 'dist');
}

async function together(what, left, replicas) {
  say(what);
  const done = await withReplicas(replicas, async (urls) => {
    const ids = [...left];
    for (const url of urls) ids.push(...(await post(url, `${what} ${url}`)));
    await settled(urls[0], ids);
    return [...ids, ...(await held(urls, what))];
  });
  inOrder();
  say(
    `  ${done.length} messages processed and delivered, in order, some at the second attempt, some after a hold`,
  );
}

/** A listener the earlier version cannot deliver to is left to this one: nothing is lost, and no attempt is counted. */
async function listenerOfThisVersion(what, before, now) {
  say(what);
  const all = 'api,inbox,outbox,upkeep';
  const replicas = [
    [before, all],
    [now, all],
  ];
  const done = await withReplicas(replicas, async (urls) => {
    await putListener(urls[1], 'upgrade-new', ['new:*']);
    const ids = [];
    for (const url of urls)
      ids.push(...(await post(url, `${what} ${url}`, MESSAGES, 'key-new', 'new:message')));
    await settled(urls[0], ids);
    return ids;
  });
  inOrder();
  say(`  ${done.length} messages processed and delivered, in order`);
}

/** One replica holds a key, each replica accepts messages of it, the last one releases it. */
async function held(urls, what) {
  const hold = `/v1/keys/${HELD_KEY}/hold`;
  await call(urls[0], 'PUT', hold, { reason: 'upgrade-check' });
  const ids = [];
  const others = [];
  for (const url of urls) {
    ids.push(...(await post(url, `${what} held ${url}`, 2, HELD_KEY)));
    others.push(...(await post(url, `${what} beside ${url}`, 2)));
  }
  await settled(urls[0], others);
  for (const id of ids) {
    const { status } = await messageOf(urls[0], id);
    if (status === 'finished') throw new Error(`${id} was processed although its key was held`);
  }
  await call(urls.at(-1), 'DELETE', hold);
  await settled(urls[0], ids);
  return [...ids, ...others];
}

/** Apart from repeats, each key's webhooks arrived in the order in which its messages were posted. */
function inOrder() {
  for (const [key, ids] of posted) {
    const arrived = receiver.arrived.get(key) ?? [];
    const first = arrived.filter((id, n) => arrived.indexOf(id) === n);
    const wrong = ids.findIndex((id, n) => first[n] !== id);
    if (wrong >= 0) throw new Error(`${key} is out of order: ${first[wrong]} came before ${ids[wrong]}`);
  }
}

/** Waits until every message is finished and delivered. */
async function settled(url, ids) {
  const until = Date.now() + TIMEOUT_MS;
  const open = new Set(ids);
  while (open.size > 0) {
    for (const id of open) {
      const { status, deliveries } = await messageOf(url, id);
      if (status === 'dead') throw new Error(`${id} became a dead letter`);
      if (status === 'finished' && deliveries.length === 1 && deliveries[0].status === 'finished')
        checkAttempt(id, deliveries[0], open);
    }
    if (Date.now() > until)
      throw new Error(`${open.size} messages were not processed and delivered, such as ${[...open][0]}`);
    await pause(50);
  }
  const arrived = new Set([...receiver.arrived.values()].flat());
  const missing = ids.filter((id) => !arrived.has(id));
  if (missing.length) throw new Error(`${missing.length} messages did not arrive, such as ${missing[0]}`);
}

function checkAttempt(id, { attempt }, open) {
  const wanted = receiver.refused.has(id) ? 2 : 1;
  if (attempt !== wanted) throw new Error(`${id} was delivered at attempt ${attempt}, not ${wanted}`);
  open.delete(id);
}

function messageOf(url, id) {
  return call(url, 'GET', `/v1/messages/${encodeURIComponent(id)}`);
}

async function post(url, name, count = MESSAGES, only = undefined, type = TYPE) {
  const ids = Array.from({ length: count }, (_, n) => `${name} ${n}`);
  for (const [n, id] of ids.entries()) {
    const key = only ?? `key-${n % 4}`;
    posted.set(key, [...(posted.get(key) ?? []), id]);
    await call(url, 'POST', '/v1/messages', {
      id,
      type,
      key,
      payload: { candidateId: id, name: 'Ada', vacancyId: 'v' },
    });
  }
  return ids;
}

async function putListener(url, name = 'upgrade', types = ['urn:*']) {
  await call(url, 'PUT', `/v1/listeners/${name}`, {
    mode: 'webhook',
    types,
    url: receiver.url,
    retrySchedule: ['1s', '5s', '30s'],
  });
}

async function call(url, method, path, body) {
  const response = await fetch(url + path, {
    method,
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
  return response.status === 204 ? undefined : response.json();
}

/** Starts replicas one after the other and stops them together; each must exit with 0. */
async function withReplicas(replicas, work) {
  const started = [];
  for (const [dist, roles] of replicas) started.push(await startReplica(dist, roles));
  const result = await work(started.map(({ url }) => url));
  for (const { child } of started) child.kill('SIGTERM');
  for (const { ended, roles } of started) {
    const code = await ended;
    if (code !== 0) throw new Error(`a replica (${roles}) ended with ${code}`);
  }
  return result;
}

async function startReplica(dist, roles) {
  const child = run(join(dist, 'src/main.js'), { ROLES: roles, PORT: '0', MIGRATIONS: 'off' });
  const ended = once(child, 'close').then(([code, signal]) => code ?? signal);
  let output = '';
  const url = await new Promise((resolve, reject) => {
    child.stdout.on('data', (text) => {
      output += text;
      const found = /Sluice is serving\s+(http\S+)/.exec(output);
      if (found) resolve(found[1]);
    });
    void ended.then((code) =>
      reject(new Error(`a replica (${roles}) did not start (${code}):\n${output}${child.said}`)),
    );
  });
  return { child, ended, url, roles };
}

async function migrate(dist) {
  const child = run(join(dist, 'src/migrate.js'), {});
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(`the migration failed:\n${child.said}`);
}

function run(program, settings) {
  const child = spawn(process.execPath, [program], {
    cwd: room,
    env: {
      PATH: process.env.PATH,
      DATABASE_URL: postgres.url,
      API_KEYS: `upgrade=admin:${KEY}`,
      HOST: '127.0.0.1',
      EGRESS_ALLOW: '127.0.0.0/8',
      SECRETS_KEYS: `k1=${Buffer.alloc(32, 1).toString('base64')}`,
      LOG_FORMAT: 'json',
      LOG_LEVEL: 'warn',
      ...settings,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  child.said = '';
  child.stdout.setEncoding('utf8');
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (text) => {
      child.said += text;
    });
  children.add(child);
  child.once('close', () => children.delete(child));
  return child;
}

async function startPostgres(dist) {
  const path = join(dist, 'src/database/embedded/embedded-postgres.js');
  const { startEmbeddedPostgres } = await import(pathToFileURL(path));
  return startEmbeddedPostgres({ dataDirectory: join(room, 'data'), log: () => undefined });
}

/** A receiver that refuses some webhooks once. */
async function startReceiver() {
  const arrived = new Map();
  const refused = new Set();
  let calls = 0;
  const server = createServer(async (request, response) => {
    let text = '';
    for await (const chunk of request) text += chunk;
    const { key, data } = JSON.parse(text);
    const id = data.candidateId;
    calls += 1;
    if (calls % REFUSED_EVERY === 0 && !refused.has(id)) {
      refused.add(id);
      response.writeHead(500).end();
      return;
    }
    arrived.set(key, [...(arrived.get(key) ?? []), id]);
    response.writeHead(204).end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${server.address().port}/`, arrived, refused, close };
}

function git(...args) {
  return spawnSync('git', args, { cwd: root, encoding: 'utf8' });
}

function say(line) {
  process.stderr.write(`upgrade-check: ${line}\n`);
}
