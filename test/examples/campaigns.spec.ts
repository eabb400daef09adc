import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Module } from '@nestjs/common';
import { Denormalizer, type Message, type ReadModel } from '../../src/contract/index.ts';
import { messageOf, readModelTest } from '../../src/testing/index.ts';
import { startApp, type TestApp } from '../support/app.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { until } from '../support/until.ts';
import {
  ARCHIVED,
  BANNER_UPDATED,
  Campaign,
  CampaignDenormalizer,
  CREATE_TASK,
  CREATED,
  CREATION_FINISHED,
  campaigns,
  DIRECT_UPDATE,
  EDITED,
  FEEDS_RESTART,
  STARTED,
  STOPPED,
} from './campaigns.ts';

/** Keys that meet here are handled at the same time; otherwise the test hangs. */
const meeting = { expected: 0, arrived: 0, all: Promise.resolve(), open() {} };

@Denormalizer({ types: ['urn:cpm:meet'] })
class Meeting {
  async apply(): Promise<void> {
    meeting.arrived += 1;
    if (meeting.arrived === meeting.expected) meeting.open();
    await meeting.all;
  }
}

const calls: string[] = [];

@Denormalizer({ types: ['urn:cpm:outside'], coalesce: { 'urn:cpm:outside': 'outside' } })
class Outside {
  async prepare({ id }: Message): Promise<void> {
    calls.push(id);
  }

  async apply(): Promise<void> {}
}

@Module({ providers: [Meeting, Outside] })
class ProbesModule {}
const probes: ReadModel = { name: 'probes', module: ProbesModule, entities: [], migrations: [] };

let database: TestDatabase;
let one: TestApp;
let other: TestApp;

beforeAll(async () => {
  database = await createDatabase();
  const settings = { INBOX_POLL: '20ms', INBOX_BATCH_MESSAGES: '16', INBOX_BATCH_LANES: '4' };
  one = await startApp(database, settings, [campaigns, probes]);
  other = await startApp(database, settings, [campaigns, probes]);
});
afterAll(async () => {
  await Promise.all([one.close(), other.close()]);
  await database.drop();
});

const get = (path: string) => other.call('GET', `/v1/${path}`);
const message = async (id: string) => (await get(`messages/${id}`)).body;

async function post(campaignId: string, type: string, payload: object = {}, replica = one): Promise<string> {
  const body = { type, key: campaignId, payload: { campaignId, ...payload } };
  const { status, body: stored } = await replica.call('POST', '/v1/messages', { body });
  expect(status).toBe(202);
  return stored.id;
}

/** Posts while the campaign is held, releases them together, and waits until nothing of the key is pending. */
async function together(
  campaignId: string,
  tasks: readonly [type: string, payload?: object][],
): Promise<string[]> {
  const ids = await heldTogether(campaignId, tasks);
  await release(campaignId);
  await until(async () => (await waiting(campaignId)) === 0);
  return ids;
}

async function heldTogether(
  campaignId: string,
  tasks: readonly [type: string, payload?: object][],
): Promise<string[]> {
  await hold(campaignId);
  const ids: string[] = [];
  for (const [type, payload] of tasks) ids.push(await post(campaignId, type, payload));
  await parked(ids);
  return ids;
}

const parked = (ids: readonly string[]) =>
  until(async () => {
    const sql = `SELECT 1 FROM inbox WHERE id = ANY ($1) AND status <> 'held'`;
    return (await database.query(sql, [ids])).length === 0;
  });

const hold = (key: string) =>
  one.call('PUT', `/v1/keys/${key}/hold`, { body: { reason: 'in_creation_process' } });
const release = (key: string) => one.call('DELETE', `/v1/keys/${key}/hold`);

async function waiting(key: string): Promise<number> {
  const sql = 'SELECT count(*)::integer AS n FROM inbox WHERE key = $1 AND settled_at IS NULL';
  return (await database.query<{ n: number }>(sql, [key]))[0]!.n;
}

interface Handling {
  message_id: string;
  type: string;
  transaction: string;
}

const handlings = (campaignId: string) =>
  database.query<Handling>('SELECT * FROM campaign_handling WHERE campaign_id = $1 ORDER BY handling', [
    campaignId,
  ]);

async function sent(
  campaignId: string,
  type: string,
): Promise<{ id: string; source: string; status: string }[]> {
  return (await get(`messages?key=${campaignId}&type=${type}`)).body.items;
}

describe('the campaign queue', () => {
  it('C1 handles the messages of a campaign together, from any source, and campaigns concurrently', async () => {
    await hold('c1');
    const writers = [one, other, one, other].map((replica, n) =>
      post('c1', [EDITED, BANNER_UPDATED, STARTED, ARCHIVED][n]!, {}, replica),
    );
    await parked(await Promise.all(writers));
    await release('c1');
    await until(async () => (await handlings('c1')).length === 4);
    expect(new Set((await handlings('c1')).map(({ transaction }) => transaction)).size).toBe(1);

    meeting.expected = 3;
    meeting.all = new Promise((resolve) => {
      meeting.open = resolve;
    });
    const ids = await Promise.all(['meet-1', 'meet-2', 'meet-3'].map((key) => post(key, 'urn:cpm:meet')));
    for (const id of ids) await until(async () => (await message(id)).status === 'finished');
  });

  it('C2 handles only the last of several, of start and stop together, and records what superseded the others', async () => {
    const ids = await together('c2', [
      [EDITED, { parameters: { budget: 1 } }],
      [STARTED],
      [BANNER_UPDATED, { banner: 'sale' }],
      [EDITED, { parameters: { budget: 2 } }],
      [STOPPED],
      [STARTED],
    ]);
    const stories = await Promise.all(ids.map(message));
    expect(stories.map(({ status, supersededBy }) => [status, supersededBy])).toEqual([
      ['superseded', ids[3]],
      ['superseded', ids[5]],
      ['finished', undefined],
      ['finished', undefined],
      ['superseded', ids[5]],
      ['finished', undefined],
    ]);
    expect((await get('campaigns/c2')).body).toEqual({
      id: 'c2',
      status: 'running',
      parameters: { budget: 2 },
      banner: 'sale',
    });
    const metrics = (await one.call('GET', '/metrics')).text + (await other.call('GET', '/metrics')).text;
    expect(metrics).toMatch(/sluice_messages_ended_total\{status="superseded"\} [1-9]/);
  });

  it('C2 shows a reader who waits for a superseded message the one that replaced it', async () => {
    const [first] = await heldTogether('c2-read', [
      [EDITED, { parameters: { n: 1 } }],
      [EDITED, { parameters: { n: 2 } }],
    ]);
    const read = get(`campaigns/c2-read?after=${first}&wait=20s`);
    await release('c2-read');
    expect((await read).body.parameters).toEqual({ n: 2 });
  });

  it('C3 handles edits, then create, then start or stop, then archive', async () => {
    await together('c3', [[ARCHIVED], [STOPPED], [CREATION_FINISHED], [BANNER_UPDATED], [EDITED]]);
    const types = (await handlings('c3')).map(({ type }) => type);
    expect(types).toEqual([CREATION_FINISHED, BANNER_UPDATED, EDITED, STOPPED, ARCHIVED]);
    expect((await get('campaigns/c3')).body.status).toBe('archived');
  });

  it('C4 handles nothing of a campaign that is held, and slows no other', async () => {
    const ids = await heldTogether('c4', [[EDITED, { parameters: { n: 1 } }], [STARTED]]);
    for (let n = 0; n < 5; n++) {
      const free = await post(`c4-free-${n}`, STARTED);
      expect((await get(`campaigns/c4-free-${n}?after=${free}&wait=5s`)).body.status).toBe('running');
    }
    expect(await handlings('c4')).toEqual([]);
    expect(await message(ids[0]!)).toMatchObject({ status: 'held', attempt: 0 });
    expect((await get('holds?key=c4')).body.items).toMatchObject([
      { kind: 'operator', reason: 'in_creation_process' },
    ]);

    await release('c4');
    expect((await get(`campaigns/c4?after=${ids[1]}`)).body).toMatchObject({
      status: 'running',
      parameters: { n: 1 },
    });
  });

  it('C5 keeps what the handler did not process, and only that, until it can', async () => {
    const [edit, create, start] = await heldTogether('c5', [
      [EDITED, { parameters: { n: 5 } }],
      [CREATED],
      [STARTED],
    ]);
    await release('c5');
    await until(async () => {
      const { status, attempt, error } = await message(start!);
      return status === 'held' && attempt === 0 && error === 'Defer: the campaign is being created';
    });
    expect([(await message(edit!)).status, (await message(create!)).status]).toEqual([
      'finished',
      'finished',
    ]);
    expect((await get('campaigns/c5')).body).toMatchObject({
      status: 'in_creation_process',
      parameters: { n: 5 },
    });

    await post('c5', CREATION_FINISHED);
    expect((await get(`campaigns/c5?after=${start}&wait=10s`)).body.status).toBe('running');
    expect((await handlings('c5')).map(({ type }) => type)).toEqual([
      EDITED,
      CREATED,
      CREATION_FINISHED,
      STARTED,
    ]);
  });

  it('C6 B10 sends new messages, a reply for example, with the same commit', async () => {
    await together('c6', [[CREATED]]);
    const [task] = await sent('c6', CREATE_TASK);
    expect(task).toMatchObject({ source: 'urn:sluice:denormalizers' });
    await until(async () => (await message(task!.id)).status === 'finished');
  });

  it('C7 shows the newest version while it is still queued, without changing the queue', async () => {
    await together('c7', [[EDITED, { parameters: { n: 0 } }]]);
    await heldTogether('c7', [
      [STARTED],
      [EDITED, { parameters: { n: 1 } }],
      [EDITED, { parameters: { n: 2 } }],
      [BANNER_UPDATED, { banner: 'new' }],
    ]);
    const before = await database.query(`SELECT * FROM inbox WHERE key = 'c7' ORDER BY position`);
    const newest = (await get('campaigns/c7?pending=true')).body;
    expect(newest).toEqual({ id: 'c7', status: 'running', parameters: { n: 2 }, banner: 'new' });
    expect((await get('campaigns/c7')).body).toMatchObject({ status: 'new', parameters: { n: 0 } });
    expect(await database.query(`SELECT * FROM inbox WHERE key = 'c7' ORDER BY position`)).toEqual(before);

    await release('c7');
    await until(async () => (await waiting('c7')) === 0);
    expect((await get('campaigns/c7')).body).toEqual(newest);
  });

  it('C8 turns ten edits in a burst into one handling and one external call', async () => {
    const edits = Array.from({ length: 10 }, (_, n) => [EDITED, { parameters: { n } }] as [string, object]);
    const ids = await together('c8', edits);
    expect((await handlings('c8')).map(({ message_id }) => message_id)).toEqual([ids[9]]);
    expect(await sent('c8', DIRECT_UPDATE)).toHaveLength(1);
    expect((await get('campaigns/c8')).body.parameters).toEqual({ n: 9 });
  });

  it('C8 also does so when the burst is larger than a batch', async () => {
    const edits = Array.from({ length: 60 }, (_, n) => [EDITED, { parameters: { n } }] as [string, object]);
    const ids = await together('c8-long', edits);
    expect((await handlings('c8-long')).map(({ message_id }) => message_id)).toEqual([ids[59]]);
  });

  it('C8 prepares only what is handled', async () => {
    const ids = await together(
      'c8-outside',
      Array.from({ length: 10 }, () => ['urn:cpm:outside'] as [string]),
    );
    expect(calls).toEqual([ids[9]]);
  });
});

describe('the campaign denormalizer alone', () => {
  const { given } = readModelTest(campaigns);
  const edited = messageOf(EDITED, { campaignId: 'c', parameters: { budget: 1 } }, 'campaignId');
  const created = messageOf(CREATED, { campaignId: 'c' }, 'campaignId');
  const started = messageOf(STARTED, { campaignId: 'c' }, 'campaignId');

  it('restarts the feeds of a running campaign when it is edited', async () => {
    await given(CampaignDenormalizer, [started()])
      .when(edited(), { times: 10 })
      .thenSent([{ type: DIRECT_UPDATE }, { type: FEEDS_RESTART, key: 'c' }])
      .andSuperseded(Array(9).fill(EDITED));
  });

  it('defers a start while the campaign is being created', async () => {
    await given(CampaignDenormalizer, [created()])
      .when(started())
      .thenDeferred('100ms', /being created/)
      .and(Campaign, [{ id: 'c', status: 'in_creation_process' }]);
  });
});
