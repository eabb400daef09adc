import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Webhook } from 'standardwebhooks';

const RECEIVER = resolve(import.meta.dirname, '../../deploy/compose/receiver.mjs');
const SECRET = newSecret();
const BODY = JSON.stringify({
  type: 'urn:ekp:events/candidate-applied',
  key: 'c-1',
  data: { candidateId: 'c-1' },
});
const MINUTE_MS = 60_000;

let running: Receiver | undefined;

afterEach(async () => {
  await running?.stop();
  running = undefined;
});

describe('the receiver of the compose file', () => {
  it('accepts what the official library signed and prints it on one line', async () => {
    const receiver = await start(SECRET);

    expect(await receiver.post(BODY, signed(BODY))).toBe(204);
    expect(await receiver.nextLine()).toMatch(
      /^\d{4}-\d\d-\d\dT[\d:.]+Z type="urn:ekp:events\/candidate-applied" key="c-1" id="delivery-1" verified=yes$/,
    );
  });

  it('accepts a webhook with the signatures of the old and the new secret', async () => {
    const receiver = await start(SECRET);
    const headers = signed(BODY);
    const old = signed(BODY, { secret: newSecret() })['webhook-signature'];
    headers['webhook-signature'] = `${old} ${headers['webhook-signature']}`;

    expect(await receiver.post(BODY, headers)).toBe(204);
    expect(await receiver.nextLine()).toContain('verified=yes');
  });

  it.each([
    ['an altered body', BODY.replace('c-1', 'c-2'), signed(BODY)],
    ['an altered id', BODY, { ...signed(BODY), 'webhook-id': 'delivery-2' }],
    ['the signature of another secret', BODY, signed(BODY, { secret: newSecret() })],
    ['a signature of another version', BODY, renamed(signed(BODY), 'v1a')],
    ['no signature at all', BODY, {}],
  ])('refuses %s', async (_what, body, headers) => {
    const receiver = await start(SECRET);

    expect(await receiver.post(body, headers)).toBe(401);
    expect(await receiver.nextLine()).toContain('verified=no');
  });

  // Signed with the right secret: only the time can be refused. The official library has the same limits.
  it.each([
    ['older than five minutes', -6 * MINUTE_MS, 401],
    ['from more than five minutes ahead', 6 * MINUTE_MS, 401],
    ['four minutes old', -4 * MINUTE_MS, 204],
  ])('handles a webhook %s as the official library does', async (_what, offsetMs, status) => {
    const receiver = await start(SECRET);
    const headers = signed(BODY, { at: new Date(Date.now() + offsetMs) });

    expect(await receiver.post(BODY, headers)).toBe(status);
    expect(await receiver.nextLine()).toContain(`verified=${status === 204 ? 'yes' : 'no'}`);
    expect(isAcceptedByOfficialLibrary(BODY, headers)).toBe(status === 204);
  });

  it('accepts everything unchecked without a secret', async () => {
    const receiver = await start();

    expect(await receiver.post(BODY, {})).toBe(204);
    expect(await receiver.nextLine()).toContain('id=null verified=unchecked');
  });

  it('keeps a key with a line break on its line', async () => {
    const receiver = await start();

    await receiver.post(JSON.stringify({ type: 't', key: 'a\nverified=yes' }), {});
    expect(await receiver.nextLine()).toContain(String.raw`key="a\nverified=yes" id=null verified=unchecked`);
  });

  it('does not start with an invalid secret', async () => {
    const { child } = spawnReceiver('not-a-secret');

    expect(await once(child, 'exit')).toEqual([1, null]);
  });
});

interface Receiver {
  post(body: string, headers: Record<string, string>): Promise<number>;
  nextLine(): Promise<string>;
  stop(): Promise<void>;
}

async function start(secret?: string): Promise<Receiver> {
  const { child, nextLine } = spawnReceiver(secret);
  const port = /port (\d+)/.exec(await nextLine())?.[1];
  running = {
    nextLine,
    async post(body, headers) {
      const response = await fetch(`http://127.0.0.1:${port}/webhooks`, { method: 'POST', body, headers });
      await response.arrayBuffer();
      return response.status;
    },
    async stop() {
      if (child.exitCode !== null) return;
      const exited = once(child, 'exit');
      child.kill('SIGTERM');
      await exited;
    },
  };
  return running;
}

function spawnReceiver(secret = ''): { child: ChildProcess; nextLine: () => Promise<string> } {
  const child = spawn(process.execPath, [RECEIVER], {
    env: { PORT: '0', HOST: '127.0.0.1', WEBHOOK_SECRET: secret },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const nextLine = async (): Promise<string> => {
    const { done, value } = await lines.next();
    if (done) throw new Error('the receiver ended');
    return value;
  };
  return { child, nextLine };
}

function signed(body: string, { secret = SECRET, at = new Date() } = {}): Record<string, string> {
  return {
    'webhook-id': 'delivery-1',
    'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
    'webhook-signature': new Webhook(secret).sign('delivery-1', at, body),
  };
}

function renamed(headers: Record<string, string>, version: string): Record<string, string> {
  return { ...headers, 'webhook-signature': headers['webhook-signature']!.replace(/^v1,/, `${version},`) };
}

function isAcceptedByOfficialLibrary(body: string, headers: Record<string, string>): boolean {
  try {
    new Webhook(SECRET).verify(body, headers);
    return true;
  } catch {
    return false;
  }
}

function newSecret(): string {
  return `whsec_${randomBytes(24).toString('base64')}`;
}
