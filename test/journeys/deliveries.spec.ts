import { afterEach, describe, expect, it } from '@jest/globals';
import { HTTP } from 'cloudevents';
import { Webhook } from 'standardwebhooks';
import { ok, type Receiver, startReceiver, status } from '../support/receiver.ts';
import { sharedReplica } from '../support/shared-replica.ts';
import { until } from '../support/until.ts';

const { replica } = sharedReplica({ EGRESS_ALLOW: '127.0.0.0/8' });
const receivers: Receiver[] = [];

afterEach(async () => {
  for (const { name } of (await replica.call('GET', '/v1/listeners')).body.items) {
    await replica.call('DELETE', `/v1/listeners/${name}`);
  }
  for (const receiver of receivers.splice(0)) await receiver.close();
});

async function listen(
  name: string,
  definition: Record<string, unknown> = {},
): Promise<Receiver & { secret: string }> {
  const receiver = await startReceiver();
  receivers.push(receiver);
  const body = { mode: 'webhook', types: [`${name}/*`], url: receiver.url, ...definition };
  const response = await replica.call('PUT', `/v1/listeners/${name}`, { body });
  expect([response.status, response.text]).toEqual([201, expect.any(String)]);
  return Object.assign(receiver, { secret: response.body.secret });
}

async function post(type: string, key: string, payload: unknown, id?: string): Promise<string> {
  const response = await replica.call('POST', '/v1/messages', { body: { type, key, payload, id } });
  expect(response.status).toBe(202);
  return response.body.id;
}

const story = async (id: string) => (await replica.call('GET', `/v1/messages/${id}`)).body;

describe('deliveries', () => {
  it('D4 D5 sends one signed webhook per listener, accepted by the official library', async () => {
    const [a, b] = [await listen('one'), await listen('two', { types: ['one/*'] })];
    const id = await post('one/happened', 'k-1', { n: 1, text: 'ä' });
    await until(() => a.received.length === 1 && b.received.length === 1);
    for (const receiver of [a, b]) {
      const [{ headers, text, body }] = receiver.received as [Receiver['received'][number]];
      expect(new Webhook(receiver.secret).verify(text, headers as Record<string, string>)).toEqual(body);
      expect(body).toMatchObject({
        type: 'one/happened',
        key: 'k-1',
        sequence: 1,
        data: { n: 1, text: 'ä' },
      });
    }
    await until(async () =>
      (await story(id)).deliveries.every((one: { status: string }) => one.status === 'finished'),
    );
    expect((await story(id)).deliveries).toEqual([
      expect.objectContaining({
        listener: 'one',
        attempt: 1,
        attempts: [expect.objectContaining({ status: 204 })],
      }),
      expect.objectContaining({ listener: 'two', attempt: 1 }),
    ]);
  });

  it('keeps the order of a key, without gaps in the sequence, and the order survives failures', async () => {
    const receiver = await listen('order', { retrySchedule: ['1ms', '1ms', '1ms', '1ms'] });
    receiver.respond = (received, response, count) =>
      (count % 3 === 0 ? status(500) : ok)(received, response, count);
    for (let n = 1; n <= 30; n++) await post('order/x', `k-${n % 3}`, n);
    const delivered = () =>
      new Map(receiver.received.map(({ body }) => [`${body.key}/${body.sequence}`, body]));
    await until(() => delivered().size === 30);
    for (const key of ['k-0', 'k-1', 'k-2']) {
      const sequences = receiver.received
        .filter(({ body }) => body.key === key)
        .map(({ body }) => body.sequence);
      expect(sequences).toEqual(sequences.toSorted((a, b) => a - b));
      expect(new Set(sequences)).toEqual(new Set([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]));
    }
  });

  it('D6 D7 retries with the same delivery id, counts the attempts, and stops after the last', async () => {
    const receiver = await listen('tries', { retrySchedule: ['1ms', '1ms'] });
    receiver.respond = status(500);
    const id = await post('tries/x', 'k', 1);
    await until(async () => (await story(id)).deliveries[0]?.status === 'dead');
    expect(receiver.received).toHaveLength(3);
    expect(new Set(receiver.received.map(({ headers }) => headers['webhook-id'])).size).toBe(1);
    const [{ headers }] = receiver.received as [(typeof receiver.received)[number]];
    const hex = String(headers['webhook-id']).replaceAll('-', '');
    for (const one of receiver.received)
      expect(one.headers.traceparent).toBe(`00-${hex}-${hex.slice(16)}-00`);
    const [delivery] = (await story(id)).deliveries;
    expect(delivery).toMatchObject({ attempt: 3, error: 'responded 500' });
    expect(delivery.attempts).toHaveLength(3);
    expect(delivery.attempts[0]).toMatchObject({
      attempt: 1,
      status: 500,
      error: 'responded 500',
      excerpt: 'response 500',
    });
  });

  it('stores the first KiB of the response to a successful delivery', async () => {
    const receiver = await listen('said');
    receiver.respond = (_received, response) => response.writeHead(202).end(`taken\0 ${'ö'.repeat(2_000)}`);
    const id = await post('said/x', 'k', 1);
    await until(async () => (await story(id)).deliveries[0]?.status === 'finished');
    const [{ attempts }] = (await story(id)).deliveries;
    expect(attempts).toEqual([
      {
        at: expect.any(String),
        attempt: 1,
        status: 202,
        error: null,
        durationMs: expect.any(Number),
        excerpt: `taken ${'ö'.repeat(508)}`,
      },
    ]);
  });

  it('E5 makes a delivery dead at once after a terminal status, and continues with the key', async () => {
    const receiver = await listen('terminal', { terminalStatuses: [400, 403] });
    receiver.respond = (received, response, count) =>
      (count === 1 ? status(403) : ok)(received, response, count);
    const [first, second] = [await post('terminal/x', 'k', 1), await post('terminal/x', 'k', 2)];
    await until(async () => (await story(second)).deliveries[0]?.status === 'finished');
    expect((await story(first)).deliveries[0]).toMatchObject({
      status: 'dead',
      attempt: 1,
      error: 'responded 403',
    });
  });

  it('with onDead hold keeps the key behind its dead letter, other keys continue', async () => {
    const receiver = await listen('hold', { terminalStatuses: [400], onDead: 'hold' });
    receiver.respond = (received, response, count) =>
      (count === 1 ? status(400) : ok)(received, response, count);
    const first = await post('hold/x', 'stuck', 1);
    await until(async () => (await story(first)).deliveries[0]?.status === 'dead');
    const [second, other] = [await post('hold/x', 'stuck', 2), await post('hold/x', 'free', 3)];
    await until(async () => (await story(other)).deliveries[0]?.status === 'finished');
    await until(async () => (await story(second)).deliveries[0]?.status === 'held');
  });

  it('pauses the whole listener after 429 with Retry-After, and charges no attempt', async () => {
    const receiver = await listen('busy');
    receiver.respond = (received, response, count) =>
      (count === 1 ? status(429, { 'retry-after': '1' }) : ok)(received, response, count);
    const first = await post('busy/x', 'a', 1);
    await until(() => receiver.received.length === 1);
    const second = await post('busy/x', 'b', 2);
    await until(async () => (await story(second)).deliveries[0]?.status === 'finished');
    await until(async () => (await story(first)).deliveries[0]?.status === 'finished');
    expect(receiver.received[1]!.at - receiver.received[0]!.at).toBeGreaterThanOrEqual(990);
    expect((await story(first)).deliveries[0].attempt).toBe(1);
  });

  it('E13 disables the listener after 410 and raises an alert that others receive; resume loses nothing', async () => {
    const alerts = await listen('alerts', { types: ['urn:sluice:alerts/listener-disabled'] });
    const receiver = await listen('gone');
    receiver.respond = status(410);
    await post('gone/x', 'a', 1);
    await until(() => alerts.received.length === 1);
    expect(alerts.received[0]!.body).toMatchObject({
      type: 'urn:sluice:alerts/listener-disabled',
      data: { listener: 'gone', reason: 'responded 410' },
    });
    const pending = await post('gone/x', 'b', 2);
    await until(async () => (await story(pending)).deliveries[0]?.status === 'pending');
    receiver.respond = ok;
    expect((await replica.call('POST', '/v1/listeners/gone/resume')).status).toBeLessThan(300);
    await until(async () => (await story(pending)).deliveries[0]?.status === 'finished');
  });

  it('E11 disables the listener after N refusals in a row', async () => {
    const receiver = await listen('refusing', {
      terminalStatuses: [403],
      disableAfter: { status: 403, times: 3 },
    });
    receiver.respond = status(403);
    for (let n = 0; n < 3; n++) await post('refusing/x', `k-${n}`, n);
    await until(async () => (await replica.call('GET', '/v1/listeners/refusing')).body.state === 'disabled');
  });

  it('are kept while the listener is paused, and sent in order after a resume', async () => {
    const receiver = await listen('paused');
    await replica.call('POST', '/v1/listeners/paused/pause');
    const ids: string[] = [];
    for (let n = 1; n <= 5; n++) ids.push(await post('paused/x', 'k', n));
    await until(async () => (await story(ids[4]!)).deliveries[0]?.status === 'pending');
    expect(receiver.received).toHaveLength(0);
    const why = await replica.call('GET', `/v1/messages/${ids[4]}/why`);
    expect(why.body.deliveries).toMatchObject([{ listener: 'paused', waitsFor: 'paused-listener' }]);
    expect(why.body.deliveries[0].explanation).toContain('POST /v1/listeners/paused/resume');
    await replica.call('POST', '/v1/listeners/paused/resume');
    await until(() => receiver.received.length === 5);
    expect(receiver.received.map(({ body }) => body.data)).toEqual([1, 2, 3, 4, 5]);
  });

  it('E4 keeps the rate limit of a listener and of a key', async () => {
    const receiver = await listen('rate', { rateLimit: { perSecond: 20, burst: 5 } });
    for (let n = 0; n < 25; n++) await post('rate/x', `k-${n}`, n);
    await until(() => receiver.received.length === 25);
    const times = receiver.received.map(({ at }) => at);
    for (const [index, start] of times.entries()) {
      const within = times.filter((at) => at >= start && at < start + 500).length;
      expect([index, within <= 5 + 10 + 1]).toEqual([index, true]);
    }
    expect(times.at(-1)! - times[0]!).toBeGreaterThanOrEqual(950);

    const perKey = await listen('chat', {
      rateLimit: { perSecond: 1000, burst: 1000, perKey: { perSecond: 5 } },
    });
    for (let n = 0; n < 4; n++) await post('chat/x', 'same', n);
    await post('chat/x', 'other', 0);
    await until(() => perKey.received.length === 5);
    const same = perKey.received.filter(({ body }) => body.key === 'same').map(({ at }) => at);
    for (let n = 1; n < same.length; n++) expect(same[n]! - same[n - 1]!).toBeGreaterThanOrEqual(195);
  });

  it('sends CloudEvents in binary mode that the official library accepts', async () => {
    const receiver = await listen('cloud', { format: 'cloudevents' });
    await post('cloud/x', 'k/ü', { a: [1] }, 'ce-1');
    await until(() => receiver.received.length === 1);
    const { headers, text } = receiver.received[0]!;
    const event = HTTP.toEvent({ headers, body: text }) as { id: string; type: string; data: unknown };
    expect(event).toMatchObject({ id: 'ce-1', type: 'cloud/x', data: { a: [1] } });
  });

  it('replays finished deliveries in key order, live ones of the key behind them, with progress', async () => {
    const receiver = await listen('replayed');
    for (let n = 1; n <= 6; n++) await post('replayed/x', `k-${n % 2}`, n);
    await until(() => receiver.received.length === 6);
    await until(
      async () =>
        (await replica.call('GET', '/v1/listeners/replayed/deliveries?status=finished')).body.items.length ===
        6,
    );
    const started = await replica.call('POST', '/v1/listeners/replayed/replay', {
      body: { since: '2020-01-01T00:00:00Z' },
    });
    expect([started.status, started.body.matched]).toEqual([202, 6]);
    await until(async () => (await replica.call('GET', started.body.location)).body.status === 'finished');
    const again = receiver.received.slice(6).map(({ body }) => body.data);
    expect(again.filter((n) => n % 2 === 0)).toEqual([2, 4, 6]);
    expect(again.filter((n) => n % 2 === 1)).toEqual([1, 3, 5]);
    const ids = receiver.received.map(({ headers }) => headers['webhook-id']);
    expect(new Set(ids).size).toBe(6);
  });
});
