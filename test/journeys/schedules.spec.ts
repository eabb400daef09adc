import { describe, expect, it } from '@jest/globals';
import { Schedules } from '../../src/upkeep/schedules/schedules.ts';
import { startApp } from '../support/app.ts';
import { createDatabase } from '../support/database.ts';
import { sharedReplicas } from '../support/shared-replica.ts';
import { until } from '../support/until.ts';

const { database, replicas } = sharedReplicas(3);

const call = (method: string, path: string, body?: unknown) =>
  replicas[0]!.call(method, path, body === undefined ? {} : { body });
const put = (name: string, more: object = {}) =>
  call('PUT', `/v1/schedules/${name}`, { cron: '* * * * * *', type: 'tick', payload: { n: 1 }, ...more });
/** The seconds at which a schedule ticked, in order. */
const ticksOf = async (name: string, of = database) =>
  (
    await of.query<{ at: string }>(
      `SELECT extract(epoch FROM occurred_at)::bigint AS at FROM inbox WHERE starts_with(id, $1) ORDER BY occurred_at`,
      [`${name}/`],
    )
  ).map(({ at }) => Number(at));
/** The payload as text; it is the last member. */
const payloadIn = (text: string) => text.slice(text.indexOf(',"payload":') + ',"payload":'.length, -1);
const eachOnce = (ticks: readonly number[]) => ticks.map((_, index) => ticks[0]! + index);
const setNext = (name: string, ago: string) =>
  database.query(`UPDATE schedule SET next_at = date_trunc('minute', now()) - $2::interval WHERE name = $1`, [
    name,
    ago,
  ]);

describe('schedules', () => {
  it('E1 post each tick exactly once over three replicas, one of which restarts', async () => {
    const created = await put('every-second', { key: 'clock', timezone: 'Europe/Warsaw' });
    expect([created.status, created.headers.get('location'), created.body]).toEqual([
      201,
      '/v1/schedules/every-second',
      expect.objectContaining({
        name: 'every-second',
        timezone: 'Europe/Warsaw',
        onMissed: 'one',
        paused: false,
        nextAt: expect.any(String),
        lastAt: null,
        createdBy: 'admin',
      }),
    ]);
    await until(async () => (await ticksOf('every-second')).length >= 2);
    await replicas.pop()!.close();
    await until(async () => (await ticksOf('every-second')).length >= 3);
    replicas.push(await startApp(database));
    await until(async () => (await ticksOf('every-second')).length >= 5);
    const ticks = await ticksOf('every-second');
    expect(ticks).toEqual(eachOnce(ticks));
    const { body } = await call('GET', '/v1/messages?type=tick&key=clock&limit=1');
    expect(body.items[0]).toMatchObject({ source: 'urn:sluice:schedules', key: 'clock' });
    const last = await call('GET', `/v1/messages/${encodeURIComponent(body.items[0].id)}`);
    expect(last.body.payload).toEqual({ n: 1 });
    expect((await call('DELETE', '/v1/schedules/every-second')).status).toBe(204);
  });

  const EXACT = '{ "b":-0,"a" : [1.0, 1e2,"\\u0041\\/"],"1":{},"0":null,\n\t"é":"\u2028"}';
  it.each([
    ['an object', EXACT],
    ['a number', '-0'],
    ['a string with escapes', '"\\u0041"'],
    ['null', 'null'],
    ['64 levels', `${'['.repeat(64)}${']'.repeat(64)}`],
    ['64 KiB', `"${'x'.repeat(65_534)}"`],
  ])(
    'keep a payload exactly as it was sent: in each response, in the list and in what they post (%s)',
    async (_what, payload) => {
      const body = `{"type":"tick","payload": ${payload} ,"cron":"* * * * * *"}`;
      const put = await replicas[0]!.call('PUT', '/v1/schedules/exact', { body });
      expect([put.status, payloadIn(put.text)]).toEqual([201, payload]);
      await until(async () => (await ticksOf('exact')).length >= 1);
      for (const action of ['pause', 'resume'])
        expect(payloadIn((await call('POST', `/v1/schedules/exact/${action}`)).text)).toBe(payload);
      expect(payloadIn((await call('GET', '/v1/schedules/exact')).text)).toBe(payload);
      expect((await call('GET', '/v1/schedules')).text).toContain(`"payload":${payload}}`);
      await call('DELETE', '/v1/schedules/exact');
      const posted = await database.query<{ payload: string }>(
        `DELETE FROM inbox WHERE starts_with(id, 'exact/') RETURNING payload::text AS payload`,
      );
      expect(new Set(posted.map((row) => row.payload))).toEqual(new Set([payload]));
    },
  );

  it.each([
    ['two equal keys', '{"a":1,"a":2}', 422, '/payload/a'],
    ['half a surrogate pair', '"\\ud83d"', 422, '/payload'],
    ['NUL', '"\\u0000"', 422, '/payload'],
    ['a number that no double holds', '9007199254740993', 422, '/payload'],
    ['a prototype', '{"__proto__":{}}', 422, '/payload/__proto__'],
    ['65 levels', `${'['.repeat(65)}${']'.repeat(65)}`, 422, `/payload${'/0'.repeat(64)}`],
    ['more than 64 KiB', `"${'x'.repeat(65_535)}"`, 422, '/payload'],
    ['more than 64 KiB of UTF-8', `"${'é'.repeat(32_768)}"`, 422, '/payload'],
    ['no JSON', '{a:1}', 400, undefined],
  ])('refuse a payload as messages do: %s', async (_what, payload, status, pointer) => {
    const body = `{"cron":"* * * * *","type":"tick","payload":${payload}}`;
    const response = await replicas[0]!.call('PUT', '/v1/schedules/refused', { body });
    expect([response.status, response.body.errors?.[0].pointer]).toEqual([status, pointer]);
  });

  it('refuse a body that is not JSON by its content type, or missing', async () => {
    const body = '{"cron":"* * * * *","type":"tick","payload":1}';
    const put = (type: string, sent: string) =>
      replicas[0]!.call('PUT', '/v1/schedules/typed', { body: sent, headers: { 'content-type': type } });
    expect((await put('text/plain', body)).status).toBe(415);
    expect((await put('application/cloudevents+json', body)).status).toBe(415);
    expect((await put('application/json', '')).status).toBe(400);
    expect((await replicas[0]!.call('PUT', '/v1/schedules/typed')).status).toBe(400);
    expect((await put('application/json; charset=utf-8', body)).status).toBe(201);
    await call('DELETE', '/v1/schedules/typed');
  });

  it('post missed ticks of the largest payload in parts, each once', async () => {
    await put('missed-large', { cron: '* * * * *', onMissed: 'all', payload: 'x'.repeat(65_534) });
    await setNext('missed-large', '150 minutes');
    await until(async () => (await ticksOf('missed-large')).length >= 150);
    const ticks = await ticksOf('missed-large');
    expect(ticks.slice(0, 150)).toEqual(ticks.slice(0, 150).map((_, index) => ticks[0]! + 60 * index));
    await call('DELETE', '/v1/schedules/missed-large');
    await database.query(`DELETE FROM inbox WHERE starts_with(id, 'missed-large/')`);
  });

  it('continue with cron expressions that were stored before the checks became strict', async () => {
    await put('before', { cron: '0 0 1 1 *' });
    const old = `mon-${'59,'.repeat(200)}0 * * * *`.replace('mon-', '0-');
    await database.query(`UPDATE schedule SET cron = $1, paused = true WHERE name = 'before'`, [old]);
    expect((await put('again', { cron: old })).status).toBe(422);
    const resumed = await call('POST', '/v1/schedules/before/resume');
    expect([resumed.status, resumed.body.cron]).toEqual([200, old]);
    await call('DELETE', '/v1/schedules/before');
  });

  it('use the clock of the database: that of a replica has no effect', async () => {
    const RealDate = Date;
    globalThis.Date = class extends RealDate {
      constructor(...time: [number] | []) {
        super(...((time.length === 0 ? [RealDate.now() - 3_600_000] : time) as [number]));
      }
      static override now = () => RealDate.now() - 3_600_000;
    } as DateConstructor;
    try {
      await put('by-database');
      // Not `until`, which would use the same clock.
      while ((await ticksOf('by-database')).length < 3);
    } finally {
      globalThis.Date = RealDate;
    }
    await until(async () => (await ticksOf('by-database')).length >= 5);
    await call('DELETE', '/v1/schedules/by-database');
    const ticks = await ticksOf('by-database');
    expect(ticks).toEqual(eachOnce(ticks));
    const [{ now }] = (await database.query(`SELECT extract(epoch FROM now())::bigint AS now`)) as [
      { now: string },
    ];
    expect(Number(now) - ticks[0]!).toBeLessThan(60);
  });

  it('post each tick once when the clock of the database jumps forward and back', async () => {
    const jumping = await createDatabase();
    // Found before the built-in function, by every new connection.
    const { pathname } = new URL(jumping.url);
    await jumping.query(`
      CREATE TABLE jump AS SELECT interval '0' AS by;
      CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS
        'SELECT pg_catalog.clock_timestamp() + by FROM public.jump';
      ALTER DATABASE ${pathname.slice(1)} SET search_path = public, pg_catalog`);
    // Without read models, so that its sessions have the search_path of the database.
    const replica = await startApp(jumping, {}, []);
    const jump = (by: string) => jumping.query('UPDATE jump SET by = $1::interval', [by]);
    const every = async (name: string) => {
      const body = { cron: '* * * * * *', type: 'tick', payload: 1, onMissed: 'skip' };
      expect((await replica.call('PUT', `/v1/schedules/${name}`, { body })).status).toBe(201);
    };
    const ticks = (name: string) => ticksOf(name, jumping);
    try {
      await every('ahead');
      await until(async () => (await ticks('ahead')).length >= 2);
      const begun = (await ticks('ahead'))[0]!;
      await jump('1 hour');
      const afterJump = async () => (await ticks('ahead')).filter((at) => at > begun + 3_000);
      await until(async () => (await afterJump()).length >= 3);
      await jump('-1 hour');
      // A new schedule uses the current clock; one that has ticked an hour ahead waits for its next tick.
      await every('back');
      await until(async () => (await ticks('back')).length >= 1);
      const before = await afterJump();
      await until(async () => (await ticks('back')).length >= 3);
      expect(await afterJump()).toEqual(before);
      await jump('1 hour');
      await until(async () => (await afterJump()).length >= before.length + 3);
      const all = await afterJump();
      expect(all).toEqual(eachOnce(all));
    } finally {
      await replica.close();
      await jumping.drop();
    }
  });

  it('post ticks that were missed while no replica ran by their policy', async () => {
    const hourly = { cron: '0 * * * *' };
    for (const onMissed of ['one', 'skip', 'all']) {
      await put(`missed-${onMissed}`, { ...hourly, onMissed });
      await setNext(`missed-${onMissed}`, '5 hours');
    }
    await until(async () => (await ticksOf('missed-all')).length >= 4);
    await until(async () => (await ticksOf('missed-one')).length >= 1);
    const waiting = await database.query(`SELECT FROM schedule WHERE next_at < now()`);
    expect(waiting).toHaveLength(0);
    const all = await ticksOf('missed-all');
    expect(all.length).toBeLessThanOrEqual(6);
    expect(all).toEqual(all.map((_, index) => all[0]! + 3_600 * index));
    expect((await ticksOf('missed-one')).length).toBeLessThanOrEqual(2);
    expect((await ticksOf('missed-skip')).length).toBeLessThanOrEqual(1);
    expect(replicas.some(({ lines }) => lines.some((line) => line.includes('schedule.missed')))).toBe(true);
  });

  it('lose no tick to a replica that does not know their time zone, and none of them waits for it', async () => {
    await put('martian', { cron: '0 * * * *', onMissed: 'all' });
    await database.query(`UPDATE schedule SET timezone = 'Mars/Base' WHERE name = 'martian'`);
    await setNext('martian', '5 hours');
    const reported = () =>
      replicas.map(({ lines }) => lines.filter((line) => line.includes('schedule.invalid')));
    await until(() => reported().every((lines) => lines.length > 0));
    await put('earthly');
    await until(async () => (await ticksOf('earthly')).length >= 3);
    await call('DELETE', '/v1/schedules/earthly');
    expect(await ticksOf('martian')).toEqual([]);
    // The replica does not retry again and again.
    expect(
      reported()
        .slice(1)
        .map((lines) => lines.length),
    ).toEqual([1, 1]);

    await database.query(`UPDATE schedule SET timezone = 'UTC' WHERE name = 'martian'`);
    replicas[0]!.app.nest.get(Schedules).wake();
    await until(async () => (await ticksOf('martian')).length >= 5);
    await call('DELETE', '/v1/schedules/martian');
  });

  it('never post a tick twice, even when a backup restores an old time', async () => {
    await put('restored', { cron: '0 * * * *', onMissed: 'all' });
    await setNext('restored', '3 hours');
    await until(async () => (await ticksOf('restored')).length >= 2);
    const before = await ticksOf('restored');
    await setNext('restored', '3 hours');
    await until(
      async () => (await database.query(`SELECT FROM schedule WHERE next_at < now()`)).length === 0,
    );
    expect((await ticksOf('restored')).slice(0, before.length)).toEqual(before);
  });

  it('are replaced without losing a tick that is due, paused, resumed, listed and deleted', async () => {
    await put('managed', { cron: '0 0 1 1 *' });
    await database.query(`UPDATE schedule SET next_at = '2999-01-01' WHERE name = 'managed'`);
    const same = await put('managed', { cron: '0 0 1 1 *', payload: null });
    expect([same.status, same.body.nextAt, same.body.payload]).toEqual([
      200,
      '2999-01-01T00:00:00.000Z',
      null,
    ]);
    const other = await put('managed', { cron: '0 0 2 1 *' });
    expect(other.body.nextAt).toMatch(/-01-02T00:00:00.000Z$/);
    const paused = await call('POST', '/v1/schedules/managed/pause');
    expect(paused.body).toMatchObject({ paused: true, nextAt: null });
    const resumed = await call('POST', '/v1/schedules/managed/resume');
    expect(resumed.body).toMatchObject({ paused: false, nextAt: other.body.nextAt });
    const listed = (await call('GET', '/v1/schedules?limit=1')).body;
    expect([listed.items[0].name, typeof listed.next]).toEqual(['managed', 'string']);
    expect((await call('GET', '/v1/schedules/managed')).status).toBe(200);
    expect((await call('DELETE', '/v1/schedules/managed')).status).toBe(204);
    for (const [method, path] of [
      ['GET', ''],
      ['DELETE', ''],
      ['POST', '/pause'],
      ['POST', '/resume'],
    ] as const)
      expect((await call(method, `/v1/schedules/managed${path}`)).status).toBe(404);
    const reported = (await call('GET', '/v1/audit?action=schedule.*&limit=4')).body.items;
    expect(reported.map(({ action }: { action: string }) => action)).toEqual([
      'schedule.delete',
      'schedule.resume',
      'schedule.pause',
      'schedule.put',
    ]);
  });

  it('are refused with every error', async () => {
    const faults = async (body: unknown, name = 'bad') => {
      const response = await call('PUT', `/v1/schedules/${name}`, body);
      expect(response.status).toBe(422);
      return response.body.errors?.map(({ pointer }: { pointer: string }) => pointer);
    };
    expect(await faults({})).toEqual(expect.arrayContaining(['/cron', '/type']));
    const good = { cron: '* * * * *', type: 't', payload: 1 };
    expect(await faults({ ...good, cron: '61 * * * *', type: '', payload: undefined })).toEqual([
      '/payload',
      '/type',
      '/cron',
    ]);
    expect(await faults({ ...good, timezone: 'Mars/Base' })).toEqual(['/timezone']);
    expect(await faults({ ...good, timezone: 'Z'.repeat(1_000_000) })).toEqual(['/timezone']);
    expect(await faults({ ...good, cron: '* '.repeat(500_000) })).toEqual(['/cron']);
    expect(await faults({ ...good, onMissed: 'some' })).toEqual(['/onMissed']);
    expect(await faults({ ...good, colour: 'red' })).toEqual(['/colour']);
    expect(await faults({ ...good, key: 'k'.repeat(300) })).toEqual(['/key']);
    expect(await faults({ ...good, type: 'urn:sluice:alerts/dead-letters' })).toEqual(['/type']);
    expect(await faults([])).toEqual(['']);
    expect(await faults(good, '-bad')).toBeUndefined();
  });
});
