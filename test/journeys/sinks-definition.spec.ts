import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { replicasPerTest } from '../support/replicas-per-test.ts';
import { sharedReplica } from '../support/shared-replica.ts';

const { replica } = sharedReplica({
  ROLES: 'api',
  SECRETS_KEYS: `test=${Buffer.alloc(32, 1).toString('base64')}`,
});
const SERVER = 'nats://1.1.1.1:4222';
const VALID = { mode: 'nats', types: ['x'], nats: { servers: [SERVER], subject: 'x.{key}' } };

const put = (body: Record<string, unknown>) =>
  replica.call('PUT', '/v1/listeners/sink', { body: { ...VALID, ...body } });
const nats = (more: Record<string, unknown>) => ({ nats: { ...VALID.nats, ...more } });

describe('the definition of a sink', () => {
  it('is created without a secret, and with defaults', async () => {
    const { status, body } = await put({});
    expect([status, body.nats, body.credentials, body.lanes]).toEqual([201, VALID.nats, {}, 16]);
    expect(body).not.toHaveProperty('secret');
    expect(body).not.toHaveProperty('format');
  });

  it.each([
    ['no target', { nats: undefined }, '/nats', /^is required$/],
    ['a URL', { url: 'https://1.1.1.1' }, '/url', /only for the mode "webhook"$/],
    ['headers', { headers: {} }, '/headers', /only for the mode "webhook"$/],
    ['a lease', { lease: '5s' }, '/lease', /only for the mode "pull"$/],
    [
      'the target of another mode',
      { mode: 'webhook', url: 'https://1.1.1.1' },
      '/nats',
      /only for the mode "nats"$/,
    ],
    ['no servers', nats({ servers: [] }), '/nats/servers', /must be a list of 1 to 10/],
    [
      'an address that is not public',
      nats({ servers: ['nats://127.0.0.1'] }),
      '/nats/servers/0',
      /is refused: 127.0.0.1 is not a public address/,
    ],
    [
      'the same in other digits',
      nats({ servers: [SERVER, 'nats://0x7f.1:4222'] }),
      '/nats/servers/1',
      /is refused: 127.0.0.1/,
    ],
    ['a metadata service', nats({ servers: ['nats://169.254.169.254'] }), '/nats/servers/0', /metadata/],
    ['a port of a database', nats({ servers: ['nats://1.1.1.1:5432'] }), '/nats/servers/0', /port 5432/],
    ['a password in the URL', nats({ servers: ['nats://a:b@1.1.1.1'] }), '/nats/servers/0', /credentials/],
    ['a wildcard', nats({ subject: 'x.*' }), '/nats/subject', /without wildcards/],
    ['an unknown field of the target', nats({ topic: 'x' }), '/nats/topic', /not a known field/],
    ['a certificate that is none', nats({ tls: { ca: 'x' } }), '/nats/tls/ca', /PEM/],
    [
      'two logins',
      { credentials: { username: 'a', token: 'b' } },
      '/credentials',
      /username and password, or token, or creds/,
    ],
    ['a password without a user', { credentials: { password: 'b' } }, '/credentials/username', /is required/],
    [
      'half a certificate',
      { credentials: { privateKey: '-----BEGIN PRIVATE KEY-----' } },
      '/credentials/certificate',
      /is required/,
    ],
    [
      'a hidden value',
      { credentials: { token: '(hidden)' } },
      '/credentials/token',
      /leave "credentials" out/,
    ],
    [
      'a placeholder that does not exist',
      { mode: 'rabbitmq', nats: undefined, rabbitmq: { servers: ['amqp://1.1.1.1'], routingKey: '{id}' } },
      '/rabbitmq/routingKey',
      /\{id\}; only/,
    ],
    [
      'a server of another broker',
      { mode: 'rabbitmq', nats: undefined, rabbitmq: { servers: [SERVER] } },
      '/rabbitmq/servers/0',
      /must be amqp:/,
    ],
    [
      'a topic that Kafka refuses',
      { mode: 'kafka', nats: undefined, kafka: { servers: ['kafka://1.1.1.1'], topic: 'a b' } },
      '/kafka/topic',
      /letters, digits and \._-/,
    ],
    [
      'servers with and without TLS',
      {
        mode: 'kafka',
        nats: undefined,
        kafka: { servers: ['kafka://1.1.1.1', 'kafka+ssl://1.1.1.2'], topic: 'a' },
      },
      '/kafka/servers',
      /all kafka:/,
    ],
    [
      'a mechanism that is not known',
      {
        mode: 'kafka',
        nats: undefined,
        kafka: { servers: ['kafka://1.1.1.1'], topic: 'a', mechanism: 'md5' },
      },
      '/kafka/mechanism',
      /must be plain/,
    ],
    [
      'a token for Kafka',
      {
        mode: 'kafka',
        nats: undefined,
        kafka: { servers: ['kafka://1.1.1.1'], topic: 'a' },
        credentials: { token: 'x' },
      },
      '/credentials',
      /must be username and password$/,
    ],
    ['a timeout beyond the lease', { timeout: '55s' }, '/timeout', /at most 50s/],
  ])('with %s is refused', async (_what, more, pointer, detail) => {
    const { status, body } = await put(more);
    expect(status).toBe(422);
    expect(body.errors).toContainEqual({ pointer, detail: expect.stringMatching(detail) });
  });
});

describe('a sink in LISTENERS_FILE', () => {
  const cluster = replicasPerTest({
    ROLES: 'api',
    SECRETS_KEYS: `test=${Buffer.alloc(32, 1).toString('base64')}`,
  });
  const folder = mkdtempSync(join(tmpdir(), 'sluice-sinks-'));
  const write = (name: string, text: string) => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  const entry = (more = '') => `listeners:
  - name: sink
    mode: nats
    types: [x]
    nats: { servers: ['${SERVER}'], subject: 'x.{key}' }
${more}`;

  it('has its credentials in a file of their own', async () => {
    write('credentials.yaml', 'username: a\npassword: secret-of-the-file\n');
    const one = await cluster.start({
      LISTENERS_FILE: write('a.yaml', entry('    credentialsFile: credentials.yaml')),
    });
    const { body, text } = await one.call('GET', '/v1/listeners/sink');
    expect(body.credentials).toEqual({ username: '(hidden)', password: '(hidden)' });
    expect(text).not.toContain('secret-of-the-file');
    const again = await cluster.start({ LISTENERS_FILE: write('b.yaml', entry()) });
    expect((await again.call('GET', '/v1/listeners/sink')).body.credentials).toEqual({});
  });

  it.each([
    [
      'a file that is missing',
      '    credentialsFile: none.yaml',
      /a.yaml:6: listeners\[0\].credentialsFile cannot be read \(ENOENT\)/,
    ],
    [
      'a secret',
      `    secret: whsec_${Buffer.alloc(32).toString('base64')}`,
      /listeners\[0\].secret is only for the mode "webhook"/,
    ],
    ['two places', '    credentials: {}\n    credentialsFile: x', /credentialsFile cannot be combined/],
  ])('is refused with %s', async (_what, more, fault) => {
    expect(await cluster.refusal({ LISTENERS_FILE: write('a.yaml', entry(more)) })).toMatch(fault);
  });
});
