import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Webhook } from 'standardwebhooks';
import { ROOT } from '../support/built-service.ts';
import type { Received, Receiver } from '../support/receiver.ts';
import { reportSkipped } from '../support/report-skipped.ts';
import { TestCluster } from '../support/test-cluster.ts';
import { until } from '../support/until.ts';

const EXAMPLES = 'docs/how-to/examples';
const hasPython = spawnSync('python3', ['--version'], { stdio: 'ignore' }).status === 0;
if (!hasPython) reportSkipped('the Python example verifies a webhook', 'python3 is missing');

interface Example {
  readonly child: ChildProcess;
  readonly lines: string[];
  post(webhook: Pick<Received, 'headers' | 'text'>): Promise<number>;
}

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await TestCluster.open();
});
afterAll(() => cluster.close());

describe.each([
  ['Node', process.execPath, 'verify.mjs', true],
  ['Python', 'python3', 'verify.py', hasPython],
])('the example for %s', (name, program, file, there) => {
  const whereItRuns = there ? it : it.skip;
  const listener = `example-${name.toLowerCase()}`;
  let receiver: Receiver;
  let secret: string;
  let example: Example;

  beforeAll(async () => {
    if (!there) return;
    const listening = await cluster.listen(listener);
    receiver = listening;
    secret = listening.secret;
    example = await start(program, file, secret);
    // Every webhook is forwarded to the example, and its status returned to the service.
    receiver.respond = async (webhook, response) => {
      response.writeHead(await example.post(webhook)).end();
    };
  });
  afterAll(async () => {
    if (!example) return;
    example.child.kill('SIGKILL');
    await once(example.child, 'close');
  });

  whereItRuns('takes a delivery as the service signed it', async () => {
    await cluster.post({ type: `${listener}/a`, key: 'ö-1', payload: { text: 'zażółć', n: 1.0 } });
    await until(async () => (await cluster.counts(listener)).finished === 1);
    const [webhook] = receiver.received;
    expect(JSON.parse(example.lines[0]!)).toEqual({
      id: webhook!.headers['webhook-id'],
      type: `${listener}/a`,
      key: 'ö-1',
      sequence: 1,
    });
  });

  whereItRuns('takes one with the old secret while a rotation lasts', async () => {
    const { status } = await cluster.replica.call('POST', `/v1/listeners/${listener}/rotate-secret`);
    expect(status).toBe(200);
    await cluster.post({ type: `${listener}/b`, key: 'ö-1' });
    await until(async () => (await cluster.counts(listener)).finished === 2);
    expect(receiver.received.at(-1)!.headers['webhook-signature']).toMatch(/^v1,\S+ v1,\S+$/);
  });

  whereItRuns('refuses it with an altered body, id or time, and without a signature', async () => {
    const { headers, text } = receiver.received[0]!;
    expect(await example.post({ headers, text })).toBe(204);
    expect(await example.post({ headers: { ...headers, ...signedAt(secret, Date.now(), text) }, text })).toBe(
      204,
    );
    const seconds = Number(headers['webhook-timestamp']);
    const { 'webhook-signature': signature, ...unsigned } = headers;
    for (const altered of [
      { headers, text: text.replace('zażółć', 'zazolc') },
      { headers: { ...headers, 'webhook-id': 'another' }, text },
      { headers: { ...headers, 'webhook-timestamp': String(seconds + 1) }, text },
      { headers: { ...headers, 'webhook-signature': signature!.toString().replaceAll('v1,', 'v2,') }, text },
      { headers: { ...headers, 'webhook-signature': 'v1,no' }, text },
      { headers: unsigned, text },
      { headers: { ...headers, ...signedAt(secret, Date.now() - 6 * 60_000, text) }, text },
      { headers: { ...headers, ...signedAt(secret, Date.now() + 6 * 60_000, text) }, text },
    ])
      expect([altered, await example.post(altered)]).toEqual([altered, 401]);
  });
});

it.each(['verify.mjs', 'verify.py'])('the how-to shows %s unchanged', (file) => {
  const document = readFileSync(join(ROOT, 'docs/how-to/verify-webhooks.md'), 'utf8');
  expect(document).toContain(readFileSync(join(ROOT, EXAMPLES, file), 'utf8'));
});

/** Genuine, at any time. */
function signedAt(secret: string, ms: number, text: string) {
  const at = new Date(ms);
  return {
    'webhook-id': 'an-id',
    'webhook-timestamp': String(Math.floor(ms / 1000)),
    'webhook-signature': new Webhook(secret).sign('an-id', at, text),
  };
}

async function start(program: string, file: string, secret: string): Promise<Example> {
  const child = spawn(program, [join(ROOT, EXAMPLES, file)], {
    env: { PATH: process.env.PATH, HOME: process.env.HOME, PORT: '0', WEBHOOK_SECRET: secret },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const lines: string[] = [];
  const output = createInterface({ input: child.stdout });
  const [first] = (await once(output, 'line')) as [string];
  output.on('line', (line) => lines.push(line));
  const url = `http://127.0.0.1:${first.replace('port ', '')}/`;
  return {
    child,
    lines,
    post: async ({ headers, text }) => {
      const { host: _host, 'content-length': _length, connection: _connection, ...rest } = headers;
      const sent = await fetch(url, { method: 'POST', headers: rest as Record<string, string>, body: text });
      return sent.status;
    },
  };
}
