import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { READ_KEY } from '../support/app.ts';
import { build, ROOT } from '../support/built-service.ts';
import { createDatabase } from '../support/database.ts';
import { status } from '../support/receiver.ts';
import { onTerminal, parsed, sluiceCli } from '../support/sluice-cli.ts';
import { TestCluster } from '../support/test-cluster.ts';
import { until } from '../support/until.ts';

const CTRL_C = '\x03';

let cluster: TestCluster;
const { start, sluice } = sluiceCli(() => cluster.replica.url);

beforeAll(async () => {
  build();
  cluster = await TestCluster.open({ METRICS_INTERVAL: '100ms', INBOX_UNHANDLED: 'finish' });
});
afterAll(() => cluster.close());

describe('sluice', () => {
  it('shows help for itself and for every command', async () => {
    const { code, out } = await sluice(['--help']);
    expect(code).toBe(0);
    const names = [...out.matchAll(/^ {2}([a-z-]+) {2,}/gm)].map(([, name]) => name!);
    const ofGroups = ['topics', 'groups', 'consume', 'seek', 'pull'];
    const ofOperators = ['dead-letters', 'replay', 'rebuild', 'schedules', 'history', 'cells'];
    const ofMachines = ['listen', 'doctor'];
    const ofProjects = ['init', 'serve', 'migrate'];
    expect(names).toEqual(['send', 'status', ...ofGroups, ...ofOperators, ...ofMachines, ...ofProjects]);
    for (const name of names) {
      const help = await sluice([name, '--help']);
      expect([name, help.code, help.out]).toEqual([
        name,
        0,
        expect.stringContaining(`Usage: sluice ${name}`),
      ]);
      expect(help.out).toContain('--json');
    }
  });

  it('exits with 2 for an invalid command line, with 1 for a refusal, and reports why', async () => {
    const cases: [given: string[], code: number, why: string][] = [
      [[], 2, ''],
      [['sned'], 2, 'there is no command "sned"'],
      [['send', 't', '1', '--kee', 'k'], 2, "Unknown option '--kee'"],
      [['send', 't', 'text'], 2, 'the payload is not JSON'],
      [
        ['schedules', 'put', 'n', '--cron', '* * * * *', '--type', 't', '--payload', '1,"key":"k"'],
        2,
        'the payload is not JSON',
      ],
      [['send', 't', '@/no/such/file'], 2, 'cannot read /no/such/file'],
      [['dead-letters'], 2, 'missing action'],
      [['dead-letters', 'revive'], 2, 'an id, a filter, or --all'],
      [['dead-letters', 'discard', '--all'], 2, 'discard needs --reason'],
      [['replay', 'crm'], 2, 'give a listener and a time'],
      [['schedules', 'put', 'n'], 2, '--cron and --type'],
      [['listen', '--secret', 'x'], 2, 'whsec_'],
      [['replay', 'nobody', '--since', '2026-01-01T00:00:00Z'], 1, 'No listener has this name'],
      [['schedules', 'delete', 'nobody'], 1, '404'],
    ];
    for (const [given, code, why] of cases) {
      const ended = await sluice(given);
      expect([given, ended.code, ended.aside]).toEqual([given, code, expect.stringContaining(why)]);
      expect(ended.aside).not.toMatch(/\n\s+at /);
    }
  });

  it('can be run by npx: by the bin of the package, built if necessary', async () => {
    const { bin } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
    const child = spawn(process.execPath, [bin.sluice, '--version'], { cwd: ROOT });
    child.stdout.setEncoding('utf8');
    const [out] = await Promise.all([once(child.stdout, 'data'), once(child, 'close')]);
    expect(out[0]).toMatch(/^\d+\.\d+\.\d+\n$/);
  });

  it('distinguishes an unreachable service from a refused key', async () => {
    const away = await sluice(['status', '--once'], { SLUICE_URL: 'http://127.0.0.1:2' });
    expect([away.code, away.aside]).toEqual([3, expect.stringContaining('ECONNREFUSED')]);
    const unknown = await sluice(['dead-letters', 'list'], { SLUICE_API_KEY: 'sk_x_0123456789' });
    expect([unknown.code, unknown.aside]).toEqual([1, expect.stringContaining('SLUICE_API_KEY')]);
    const weak = await sluice(['schedules', 'delete', 'n', '--json'], { SLUICE_API_KEY: READ_KEY });
    expect(weak.code).toBe(1);
    expect(JSON.parse(weak.aside).problem.type).toBe('urn:sluice:problems/forbidden');
  });
});

describe('SLUICE_URL', () => {
  it('may have a path, with or without a slash at its end', async () => {
    const asked: string[] = [];
    const proxy = createServer(async (request, response) => {
      asked.push(request.url!);
      const { status, body } = await cluster.call('GET', request.url!.replace(/^\/behind/, ''));
      response.writeHead(status).end(JSON.stringify(body));
    }).listen(0, '127.0.0.1');
    await once(proxy, 'listening');
    const { port } = proxy.address() as AddressInfo;
    try {
      for (const end of ['', '/', '//']) {
        const SLUICE_URL = `http://127.0.0.1:${port}/behind${end}`;
        const { code, json } = await sluice(['schedules', 'list', '--json'], { SLUICE_URL });
        expect([end, code, json]).toEqual([end, 0, expect.objectContaining({ items: [] })]);
      }
      expect(asked.map((url) => url.split('?')[0])).toEqual(Array(3).fill('/behind/v1/schedules'));
    } finally {
      proxy.close();
    }
  });
});

describe('sluice send', () => {
  it('posts a payload exactly as it is written, from an argument, a file and standard input', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'cli-'));
    writeFileSync(join(folder, 'payload.json'), '{"from":"file"}');
    const payload = '{"exact":1.10,"list":[1,2]}';
    const one = await sluice(['send', 't', payload, '--key', 'k', '--id', 'cli-1', '--header', 'a=b=c']);
    expect([one.code, one.out]).toEqual([0, 'cli-1 pending\n']);
    const again = await sluice(['send', 't', payload, '--key', 'k', '--id', 'cli-1', '--header', 'a=b=c']);
    expect(again.out).toContain('(duplicate)');
    const file = await sluice(['send', 't', `@${folder}/payload.json`, '--json']);
    const piped = await sluice(['send', 't', '-', '--json', '--wait', '20'], {}, '"piped"');
    expect([piped.code, piped.json.status]).toEqual([0, 'finished']);
    await cluster.call('PUT', '/v1/keys/kept/hold', { reason: 'not yet' });
    const held = await sluice(['send', 't', '1', '--key', 'kept', '--id', 'cli-2', '--wait', '0.3']);
    expect([held.code, held.out]).toEqual([
      1,
      expect.stringMatching(/^cli-2 (?:held|pending)\n {2}An operator holds its key .*not yet/),
    ]);
    await cluster.call('DELETE', '/v1/keys/kept/hold');
    const rows = await cluster.database.query<{ id: string; payload: string; headers: unknown }>(
      `SELECT id, payload::text AS payload, headers FROM inbox WHERE id <> 'cli-2' ORDER BY position`,
    );
    expect(rows.map(({ payload }) => payload)).toEqual([payload, '{"from":"file"}', '"piped"']);
    expect(rows[0]!.headers).toEqual({ a: 'b=c' });
    expect(rows[1]!.id).toBe(file.json.id);
    rmSync(folder, { recursive: true });
  });
});

describe('sluice listen', () => {
  it('prints what arrives, and distinguishes genuine from forged webhooks', async () => {
    const { secret } = await cluster.listen('local');
    const receiver = start(['listen', '--port', '0', '--count', '2', '--secret', secret, '--json']);
    const { listening } = JSON.parse(await receiver.line());
    const forged = await fetch(listening, {
      method: 'POST',
      body: '{}',
      headers: {
        'webhook-id': 'x',
        'webhook-timestamp': String(Math.floor(Date.now() / 1000)),
        'webhook-signature': 'v1,x',
      },
    });
    expect(forged.status).toBe(401);
    await cluster.put('local', { url: listening });
    await cluster.post({ type: 'local/a', key: 'k', payload: { n: 1 } });
    const { code, out } = await receiver.ended;
    const lines = out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(lines.slice(1).map(({ verified }) => verified)).toEqual(['forged', 'verified']);
    expect(lines[2].body).toMatchObject({ type: 'local/a', key: 'k', data: { n: 1 } });
    expect(code).toBe(1);
  });

  it.each(['standard', 'cloudevents'])(
    'shows type and key of a delivery in the format %s',
    async (format) => {
      const receiver = start(['listen', '--port', '0', '--count', '1']);
      const url = (await receiver.line()).replace('listening at ', '');
      await cluster.put(format, { url, format });
      await cluster.post({ type: `${format}/a`, key: 'k-1', payload: { n: 1 } });
      const { code, out } = await receiver.ended;
      expect([code, out]).toEqual([
        0,
        expect.stringMatching(new RegExp(`  unchecked   ${format}/a  key=k-1  id=\\S+  `)),
      ]);
    },
  );
});

describe('sluice status', () => {
  it('shows the queues, once or repeatedly', async () => {
    await cluster.listen('shown');
    await cluster.call('POST', '/v1/listeners/shown/pause', { reason: 'a look' });
    await cluster.post({ type: 'shown/a' }, { type: 'shown/a' });
    const waiting = async () => {
      const { json } = await sluice(['status', '--once', '--json']);
      const [one] = json.listeners.filter(({ name }: { name: string }) => name === 'shown');
      return one?.ready === 2 ? json : undefined;
    };
    const json = await until(waiting);
    expect(json).toMatchObject({ ready: true, alive: true, inbox: { ready: 0, deadLetters: 0 } });
    const { code, out } = await sluice(['status', '--once']);
    expect(out).toMatch(/since it started: \d+ accepted, \d+ processed, \d+ delivered/);
    expect(code).toBe(0);
    expect(out).toMatch(/^shown +paused +2 +0 +\d+s +0$/m);

    const live = start(['status', '--every', '0.1']);
    await until(() => live.output().includes('/s accepted'));
    live.child.kill('SIGINT');
    expect((await live.ended).code).toBe(0);
  });

  it('shows the same from a replica with the role api only', async () => {
    const replica = await cluster.start({ ROLES: 'api' });
    const { code, json } = await sluice(['status', '--once', '--json'], { SLUICE_URL: replica.url });
    expect(code).toBe(0);
    expect(json.inbox).toEqual({ ready: 0, held: 0, scheduled: 0, oldestSeconds: 0, deadLetters: 0 });
    expect(json.listeners).toContainEqual({
      name: 'shown',
      state: 'paused',
      ready: 2,
      held: 0,
      oldestSeconds: expect.any(Number),
      deadLetters: 0,
      circuitOpen: false,
    });
  });

  it('continues through an outage, and shows it', async () => {
    let responses: 'all' | 'none' | 503 = 'all';
    const front = createServer(async (request, response) => {
      if (responses === 'none') return void request.socket.destroy();
      if (responses === 503) return void response.writeHead(503).end('away');
      const { status, text } = await cluster.replica.call('GET', request.url!);
      response.writeHead(status).end(text);
    });
    front.listen(0, '127.0.0.1');
    await once(front, 'listening');
    const url = `http://127.0.0.1:${(front.address() as AddressInfo).port}`;
    const live = start(['status', '--every', '0.1', '--json'], { SLUICE_URL: url });
    const last = () => parsed(live.output().trimEnd().split('\n').at(-1)!) as Record<string, unknown>;
    try {
      await until(() => live.output() !== '' && last().ready === true);
      for (const [outage, reported] of [
        ['none', /^cannot reach Sluice/],
        [503, /returned 503/],
      ] as const) {
        responses = outage;
        await until(() => reported.test(String(last().error)));
        responses = 'all';
        await until(() => last().ready === true);
      }
      live.child.kill('SIGINT');
      expect((await live.ended).code).toBe(0);
    } finally {
      live.child.kill('SIGKILL');
      front.close();
    }
  });

  onTerminal('redraws the screen on a terminal', async () => {
    const live = start(['status', '--every', '0.1'], {}, 'terminal');
    await until(() => live.output().split('\x1b[H\x1b[2J').length > 3);
    live.child.stdin.end(CTRL_C);
    const { code, out } = await live.ended;
    expect([code, out]).toEqual([0, expect.stringMatching(/^\x1b\[H\x1b\[2Jhttp/)]);
  });
});

describe('sluice replay', () => {
  onTerminal('draws a progress bar on a terminal', async () => {
    const receiver = await cluster.listen('drawn');
    await cluster.post({ type: 'drawn/a' });
    await until(() => receiver.received.length === 1);
    await until(async () => (await cluster.counts('drawn')).finished === 1);
    const since = new Date(Date.now() - 3_600_000).toISOString();
    const { code, out } = await start(['replay', 'drawn', '--since', since], {}, 'terminal').ended;
    expect(code).toBe(0);
    expect(out).toMatch(/\r\x1b\[2K█{30} 100 % {2}1 of 1\r\n1 sent again, 0 dead letters\r\n$/);
  });

  it('sends deliveries again, and waits for the result', async () => {
    const receiver = await cluster.listen('again');
    await cluster.post(...[1, 2, 3].map((n) => ({ type: 'again/a', key: `k-${n % 2}` })));
    await until(() => receiver.received.length === 3);
    const since = new Date(Date.now() - 3_600_000).toISOString();
    await until(async () => (await cluster.counts('again')).finished === 3);
    const { code, out } = await sluice(['replay', 'again', '--since', since]);
    expect([code, out]).toEqual([0, '3 sent again, 0 dead letters\n']);
    expect(receiver.received).toHaveLength(6);
    const filtered = await sluice([
      'replay',
      'again',
      '--since',
      since,
      '--key',
      'k-0',
      '--detach',
      '--json',
    ]);
    expect(filtered.json.matched).toBe(1);
  });
});

describe('sluice dead-letters', () => {
  it('lists and groups them, revives one or many, discards with a reason', async () => {
    const receiver = await cluster.listen('deadly', { terminalStatuses: [400] }, status(400));
    await cluster.post(...['a', 'b', 'c', 'd'].map((key) => ({ type: 'deadly/a', key })));
    await until(async () => (await cluster.counts('deadly')).dead === 4);

    const { json } = await sluice(['dead-letters', 'list', '--listener', 'deadly', '--json']);
    expect(json.items.map(({ key }: { key: string }) => key).sort()).toEqual(['a', 'b', 'c', 'd']);
    expect((await sluice(['dead-letters', 'list', '--limit', '2'])).out.trim().split('\n')).toHaveLength(3);
    const groups = await sluice(['dead-letters', 'groups']);
    expect(groups.out).toMatch(/^ +4 +outbox +deadly +responded 400$/m);

    const dry = await sluice(['dead-letters', 'revive', '--listener', 'deadly', '--dry-run', '--json']);
    expect(dry.json).toMatchObject({ matched: 4, dryRun: true });
    const failing = await sluice(['dead-letters', 'revive', '--key', 'a']);
    expect([failing.code, failing.out]).toEqual([1, '1 matched: 1 revived, 1 dead again\n']);
    receiver.respond = status(204);
    const [b, c] = ['b', 'c'].map((key) => json.items.find((one: { key: string }) => one.key === key).id);
    expect((await sluice(['dead-letters', 'revive', b])).code).toBe(0);
    const gone = await sluice(['dead-letters', 'discard', c, '--reason', 'a test']);
    expect([gone.code, gone.out]).toEqual([0, `${c} discarded\n`]);
    expect((await sluice(['dead-letters', 'discard', c, '--reason', 'again'])).code).toBe(1);
    const revived = await sluice(['dead-letters', 'revive', '--listener', 'deadly', '--json']);
    expect([revived.code, revived.json]).toEqual([0, expect.objectContaining({ matched: 2, dead: 0 })]);
    await until(async () => (await cluster.counts('deadly')).finished === 3);
    expect(await cluster.counts('deadly')).toEqual({ finished: 3, discarded: 1 });
  });
});

describe('sluice schedules', () => {
  it('puts, lists, pauses, resumes and deletes them', async () => {
    const put = ['schedules', 'put', 'nightly', '--cron', '0 3 * * *', '--timezone', 'Europe/Warsaw'];
    const made = await sluice([...put, '--type', 'urn:t', '--payload', '{"n":1}', '--json']);
    expect([made.code, made.json]).toEqual([
      0,
      expect.objectContaining({ name: 'nightly', payload: { n: 1 } }),
    ]);
    expect((await sluice(['schedules', 'pause', 'nightly'])).out).toMatch(/nightly.*Europe\/Warsaw.*paused/);
    expect((await sluice(['schedules', 'resume', 'nightly', '--json'])).json.paused).toBe(false);
    expect((await sluice(['schedules', 'list', '--json'])).json.items).toHaveLength(1);
    const exact = '{ "b":-0,"a":[1.0],"1":1e2}';
    for (const name of ['exact-1', 'exact-2']) {
      const given = ['put', name, '--cron', '0 3 * * *', '--type', 't', '--payload', exact, '--json'];
      expect((await sluice(['schedules', ...given])).out).toContain(`"payload":${exact}}`);
    }
    const listed = await sluice(['schedules', 'list', '--json']);
    expect(listed.json.items).toHaveLength(3);
    expect(listed.out.split(`"payload":${exact}}`)).toHaveLength(3);
    for (const name of ['exact-1', 'exact-2', 'nightly'])
      expect((await sluice(['schedules', 'delete', name])).code).toBe(0);
    expect((await sluice(['schedules', 'list'])).out).toBe('no schedules\n');
    expect((await sluice([...put.slice(0, 4), 'never', '--type', 't'])).aside).toContain('/cron');
  });
});

describe('sluice doctor', () => {
  it('warns of an egress that is open to everything', async () => {
    const { json } = await sluice(['doctor', '--offline', '--json'], {
      EGRESS_ALLOW: '10.0.0.0/8,::/0+wide+metadata',
    });
    expect(JSON.stringify(json)).toContain('EGRESS_ALLOW allows everything');
  });

  it('finds problems in the settings, the database and the service', async () => {
    const empty = await createDatabase({ empty: true });
    const { code, json } = await sluice(['doctor', '--json'], {
      DATABASE_URL: empty.url,
      INBOX_LEASE: '1ms',
    });
    await empty.drop();
    expect(code).toBe(1);
    const found = (check: string) =>
      json.findings
        .filter((one: { check: string }) => one.check === check)
        .map((one: { verdict: string }) => one.verdict);
    expect(json.findings.find((one: { check: string }) => one.check === 'settings').found).toContain(
      'INBOX_LEASE',
    );
    expect(found('migrations')).toEqual(['failed']);
    expect(found('clock of the database')).toEqual(['ok']);
    expect(found('clock of the service')).toEqual(['ok']);
    expect(found('service')).toEqual(['ok']);
    expect(found('api key')).toEqual(['ok']);
  });

  it('reports healthy parts as ok, and names the checks it skipped', async () => {
    const offline = await sluice(['doctor', '--offline']);
    expect([offline.code, offline.out]).toEqual([
      0,
      expect.stringMatching(/database +skipped +DATABASE_URL is not set/),
    ]);
    const { json } = await sluice(['doctor', '--json'], { DATABASE_URL: cluster.database.url });
    const verdict = Object.fromEntries(
      json.findings.map((one: { check: string; verdict: string }) => [one.check, one.verdict]),
    );
    expect(verdict).toMatchObject({ settings: 'ok', database: 'ok', migrations: 'ok', connections: 'ok' });
    const [{ fsync }] = (await cluster.database.query('SHOW fsync')) as [{ fsync: string }];
    expect(verdict.durability).toBe(fsync === 'off' ? 'failed' : 'ok');
  });

  it('checks the database of every cell', async () => {
    const CELLS = `a=${cluster.database.url},b=postgres://nobody:x@127.0.0.1:1/x`;
    const { code, json } = await sluice(['doctor', '--offline', '--json'], { CELLS });
    const found = json.findings.map((one: { check: string; verdict: string }) => [one.check, one.verdict]);
    expect(code).toBe(1);
    expect(found).toContainEqual(['database (a)', 'ok']);
    expect(found).toContainEqual(['migrations (a)', 'ok']);
    expect(found).toContainEqual(['database (b)', 'failed']);
  });

  it('does not cut its findings in a pipe', async () => {
    const { code, out } = await sluice(['doctor', '--offline'], { RETENTION_WAITING: '29d' });
    expect([code, out]).toEqual([
      1,
      expect.stringMatching(/RETENTION_WAITING=29d is shorter .*; set RETENTION_WAITING to 30d or more$/m),
    ]);
  });

  it('reports an unreachable database and service', async () => {
    const { code, json } = await sluice(['doctor', '--json'], {
      DATABASE_URL: 'postgres://nobody:x@127.0.0.1:1/x',
      SLUICE_URL: 'http://127.0.0.1:2',
    });
    expect(code).toBe(1);
    const faults = json.findings.filter((one: { verdict: string }) => one.verdict === 'failed');
    expect(faults).toHaveLength(2);
    expect(faults[0]).toMatchObject({
      check: 'database',
      found: expect.stringMatching(/^cannot reach PostgreSQL at 127\.0\.0\.1:1 \(.*\); check DATABASE_URL/),
    });
  });
});
