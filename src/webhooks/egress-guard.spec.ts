import { createSocket, type Socket as UdpSocket } from 'node:dgram';
import { promises as dns, type LookupAddress } from 'node:dns';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { until } from '../../test/support/until.ts';
import { loadSettings } from '../config/settings.ts';
import { EgressGuard, EgressRefused, type EgressRules } from './egress-guard.ts';
import { HostLookup } from './host-lookup.ts';
import { closedKindOf } from './public-addresses.ts';
import type { WebhookRequest } from './webhook-request.ts';
import { WebhookSender } from './webhook-sender.ts';

/** PORT is the canary's: each of these that names this machine would reach it. */
const THIS_MACHINE = [
  'http://127.0.0.1:PORT/',
  'http://127.1:PORT/',
  'http://127.0.1:PORT/',
  'http://127.255.255.254:PORT/',
  'http://2130706433:PORT/',
  'http://0x7f000001:PORT/',
  'http://0x7F.0x0.0x0.0x1:PORT/',
  'http://0x7f.1:PORT/',
  'http://017700000001:PORT/',
  'http://0177.0.0.01:PORT/',
  'http://127.0.0.1.:PORT/',
  'http://127.0.0.1%2e:PORT/',
  'http://%31%32%37.0.0.1:PORT/',
  'http://127%2E0%2E0%2E1:PORT/',
  'http://①②⑦.⓪.⓪.①:PORT/',
  'http://１２７.０.０.１:PORT/',
  'http://127。0。0。1:PORT/',
  'http://127．0．0．1:PORT/',
  'http://0:PORT/',
  'http://0.0.0.0:PORT/',
  'http://00000000000:PORT/',
  'http://[::]:PORT/',
  'http://[::1]:PORT/',
  'http://[0:0:0:0:0:0:0:1]:PORT/',
  'http://[0000::0001]:PORT/',
  'http://[::ffff:127.0.0.1]:PORT/',
  'http://[::FFFF:7F00:1]:PORT/',
  'http://[0:0:0:0:0:ffff:127.0.0.1]:PORT/',
  'http://[::ffff:0.0.0.0]:PORT/',
  'http://localhost:PORT/',
  'http://LOCALHOST:PORT/',
  'http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ:PORT/',
  'http:\\\\127.0.0.1:PORT\\',
  'http:127.0.0.1:PORT/',
  'http:///127.0.0.1:PORT/',
  'http://127.0.0\t.1:PORT/',
  '  HTTP://127.0.0.1:PORT/  ',
  'https://127.0.0.1:PORT/',
  'https://[::1]:PORT/',
];

const ELSEWHERE = [
  // addresses inside clouds and networks
  'http://169.254.169.254/latest/meta-data/',
  'http://2852039166/',
  'http://0xa9fea9fe/',
  'http://0251.0376.0251.0376/',
  'http://[::ffff:169.254.169.254]/',
  'http://[::ffff:a9fe:a9fe]/',
  'http://[fd00:ec2::254]/',
  'http://[fd20:ce::254]/',
  'http://168.63.129.16/machine',
  'http://100.100.100.200/',
  'http://192.0.0.192/',
  'http://10.0.0.1/',
  'http://10.1/',
  'http://172.16.0.1/',
  'http://172.31.255.255/',
  'http://192.168.1.1/',
  'http://100.64.0.1/',
  'http://198.18.0.1/',
  'http://192.0.2.1/',
  'http://198.51.100.1/',
  'http://203.0.113.1/',
  'http://192.88.99.1/',
  'http://224.0.0.1/',
  'http://239.255.255.250:1900/',
  'http://240.0.0.1/',
  'http://255.255.255.255/',
  // IPv4 addresses embedded in IPv6
  'http://[::127.0.0.1]/',
  'http://[::10.0.0.1]/',
  'http://[64:ff9b::127.0.0.1]/',
  'http://[64:ff9b::a9fe:a9fe]/',
  'http://[64:ff9b::10.0.0.1]/',
  'http://[64:ff9b:1::8.8.8.8]/',
  'http://[2002:7f00:1::]/',
  'http://[2002:a00:1::1]/',
  'http://[2001:0:7f00:1::]/',
  // IPv6 that is not public
  'http://[fc00::1]/',
  'http://[fdff:ffff::1]/',
  'http://[fe80::1]/',
  'http://[febf::1]/',
  'http://[fec0::1]/',
  'http://[ff02::1]/',
  'http://[2001:db8::1]/',
  'http://[3fff::1]/',
  'http://[2001:2::1]/',
  'http://[2001:20::1]/',
  'http://[100::1]/',
  'http://[5f00::1]/',
  'http://[4000::1]/',
  'http://[1::1]/',
  // not a URL with an address
  'http://[fe80::1%25eth0]/',
  'http://[::1%25lo]/',
  'http://256.256.256.256/',
  'http://1.2.3.4.5.0x/',
  'http://127.0.0.1%00.example.com/',
  'http://exa mple.com/',
  'http://',
  '//example.com/',
  'example.com',
  '',
  // credentials
  'http://example.com@127.0.0.1/',
  'http://user@example.com/',
  'http://user:secret@example.com/',
  'http://:secret@example.com/',
  'http://127.0.0.1:80@example.com/',
  // schemes
  'ftp://example.com/',
  'file:///etc/passwd',
  'gopher://example.com/_POST',
  'ws://example.com/',
  'javascript:alert(1)',
  'data:text/plain,x',
  'http+unix://%2Fvar%2Frun%2Fdocker.sock/',
  'blob:http://example.com/x',
  // ports
  'http://example.com:0/',
  'http://example.com:22/',
  'http://example.com:25/',
  'https://example.com:5432/',
  'http://8.8.8.8:6379/',
  'http://example.com:11211/',
];

const PUBLIC = [
  'https://example.com/hook?a=b#c',
  'http://example.com:8080/',
  'https://xn--bcher-kva.example/',
  'https://bücher.example/',
  'http://8.8.8.8/',
  'https://1.1.1.1:8443/',
  'http://134744072/',
  'http://[2606:4700::1111]/',
  'http://[2a00:1450:4001::1]/',
  'http://[::ffff:8.8.8.8]/',
  'http://[64:ff9b::8.8.8.8]/',
  'http://0127.0.0.1/',
];

let canary: Canary;
let senders: WebhookSender[];

beforeAll(async () => {
  canary = await startCanary();
});
afterAll(() => canary.close());
beforeEach(() => {
  canary.reset();
  senders = [];
});
afterEach(async () => {
  await Promise.all(senders.map((sender) => sender.close()));
});

describe('an endpoint that is not on the public internet', () => {
  const hostile = [...THIS_MACHINE, ...ELSEWHERE];

  it(`is refused in each of ${hostile.length} notations, without a connection`, async () => {
    const guard = new EgressGuard();
    const sender = senderWith(guard);
    for (const written of hostile) {
      const url = written.replace('PORT', String(canary.port));
      expect([url, (await guard.checkEndpoint(url)).kind]).toEqual([url, 'refused']);
      const result = await sender.send(post(url), { timeoutMs: 2_000 });
      expect([url, result]).toEqual([url, expect.objectContaining({ kind: 'failed', reason: 'egress' })]);
    }
    expect(canary.connections).toBe(0);
  });

  it('would be reached without the guard: the canary gets a call for every notation of this machine', async () => {
    const guard = new EgressGuard({ allow: everything() });
    const sender = senderWith(guard);
    const reached: string[] = [];
    for (const written of THIS_MACHINE) {
      const before = canary.connections;
      await sender.send(post(written.replace('PORT', String(canary.port))), { timeoutMs: 2_000 });
      if (canary.connections > before) reached.push(written);
    }
    // All of them on Linux with IPv6.
    expect(reached.length).toBeGreaterThan(25);
  });

  it('is also refused at the connection, where the URL is not checked', async () => {
    const guard = new EgressGuard();
    guard.checkUrl = () => ({ kind: 'allowed' });
    const sender = senderWith(guard);
    for (const written of THIS_MACHINE) {
      const url = written.replace('PORT', String(canary.port));
      const result = await sender.send(post(url), { timeoutMs: 2_000 });
      expect([url, result]).toEqual([url, expect.objectContaining({ reason: 'egress' })]);
    }
    expect(canary.connections).toBe(0);
  });

  it.each(PUBLIC)('does not include %s', (url) => {
    expect(new EgressGuard().checkUrl(url)).toEqual({ kind: 'allowed' });
  });
});

describe('an address', () => {
  it.each([
    ['0.0.0.0', '0.255.255.255', undefined, '1.0.0.0'],
    ['10.0.0.0', '10.255.255.255', '9.255.255.255', '11.0.0.0'],
    ['100.64.0.0', '100.127.255.255', '100.63.255.255', '100.128.0.0'],
    ['127.0.0.0', '127.255.255.255', '126.255.255.255', '128.0.0.0'],
    ['168.63.129.16', '168.63.129.16', '168.63.129.15', '168.63.129.17'],
    ['169.254.0.0', '169.254.255.255', '169.253.255.255', '169.255.0.0'],
    ['172.16.0.0', '172.31.255.255', '172.15.255.255', '172.32.0.0'],
    ['192.0.0.0', '192.0.0.255', '191.255.255.255', '192.0.1.0'],
    ['192.0.2.0', '192.0.2.255', '192.0.1.255', '192.0.3.0'],
    ['192.88.99.0', '192.88.99.255', '192.88.98.255', '192.88.100.0'],
    ['192.168.0.0', '192.168.255.255', '192.167.255.255', '192.169.0.0'],
    ['198.18.0.0', '198.19.255.255', '198.17.255.255', '198.20.0.0'],
    ['198.51.100.0', '198.51.100.255', '198.51.99.255', '198.51.101.0'],
    ['203.0.113.0', '203.0.113.255', '203.0.112.255', '203.0.114.0'],
    ['224.0.0.0', '255.255.255.255', '223.255.255.255', undefined],
    ['::', '1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff', undefined, '2000::'],
    ['64:ff9b:1::', '64:ff9b:1:ffff:ffff:ffff:ffff:ffff', undefined, undefined],
    ['2001::', '2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff', '2000:ffff::', '2001:200::'],
    ['2001:db8::', '2001:db8:ffff:ffff:ffff:ffff:ffff:ffff', '2001:db7:ffff::', '2001:db9::'],
    ['2002::', '2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff', '2001:ffff::', '2003::'],
    ['3fff::', '3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff', '3ffe:ffff::', '3fff:1000::'],
    ['4000::', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff', '3fff:ffff::', undefined],
  ])('is blocked from %s to %s and allowed directly before and after', (first, last, before, after) => {
    for (const address of [first, last]) expect([address, closedKindOf(address)]).not.toContain(undefined);
    for (const address of [before, after]) if (address) expect(closedKindOf(address)).toBeUndefined();
  });

  it('gets the same verdict in every notation', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 2 ** 32 - 1 }), (number) => {
        const bytes = [24, 16, 8, 0].map((shift) => (number >>> shift) & 255);
        const dotted = bytes.join('.');
        const guard = new EgressGuard();
        const hosts = [
          dotted,
          String(number),
          `0x${number.toString(16)}`,
          `0${number.toString(8)}`,
          bytes.map((byte) => `0x${byte.toString(16)}`).join('.'),
          bytes.map((byte) => `0${byte.toString(8)}`).join('.'),
          `${bytes[0]}.${number & 0xffffff}`,
          `[::ffff:${dotted}]`,
          `[64:ff9b::${dotted}]`,
        ];
        const verdicts = hosts.map((host) => guard.checkUrl(`http://${host}/`).kind);
        const expected = closedKindOf(dotted) === undefined ? 'allowed' : 'refused';
        expect([dotted, new Set(verdicts)]).toEqual([dotted, new Set([expected])]);
      }),
      { examples: [[0x7f000001], [0xa9fea9fe], [0x0a000001], [0x08080808], [0], [2 ** 32 - 1]] },
    );
  });

  it('that is not an address is never allowed', () => {
    for (const address of ['', 'localhost', 'fe80::1%eth0', '08.8.8.8', '8.8.8']) {
      expect(closedKindOf(address)).toBeDefined();
    }
  });
});

describe('EGRESS_ALLOW', () => {
  it('allows the addresses it names and no others', async () => {
    const { egressAllow } = loadSettings({ EGRESS_ALLOW: '10.1.0.0/16, 192.168.7.7,fd00:1::/32' });
    const guard = new EgressGuard({ allow: egressAllow });
    for (const host of [
      '10.1.2.3',
      '[::ffff:10.1.2.3]',
      '192.168.7.7',
      '[fd00:1::5]',
      '8.8.8.8',
      '167839235',
    ]) {
      expect([host, guard.checkUrl(`http://${host}/`).kind]).toEqual([host, 'allowed']);
    }
    for (const host of [
      '10.2.0.1',
      '192.168.7.8',
      '[fd00:2::5]',
      '127.0.0.1',
      '169.254.169.254',
      '[64:ff9b::10.1.2.3]',
    ]) {
      expect([host, guard.checkUrl(`http://${host}/`).kind]).toEqual([host, 'refused']);
    }
  });

  it('does not allow the port of its own database, nor those of other services', async () => {
    const guard = new EgressGuard({ allow: everything(), refusedPorts: [canary.port] });
    const result = await senderWith(guard).send(post(`http://127.0.0.1:${canary.port}/`), {
      timeoutMs: 2_000,
    });
    expect(result).toMatchObject({ reason: 'egress', detail: `port ${canary.port} is not for webhooks` });
    expect(guard.checkUrl('http://127.0.0.1:5432/').kind).toBe('refused');
    expect(canary.connections).toBe(0);
  });

  it.each([
    '10.0.0.0/33',
    'fd00::/129',
    '10.0.0/8',
    'x',
    '10.0.0.0/8,',
    'localhost',
    '10.0.0.0/-1',
    '010.0.0.0/8',
  ])('cannot be %j', (EGRESS_ALLOW) => {
    expect(() => loadSettings({ EGRESS_ALLOW })).toThrow(`EGRESS_ALLOW=${EGRESS_ALLOW} is not allowed`);
  });

  it('allows nothing when it is not set', () => {
    expect(loadSettings({}).egressAllow).toEqual([]);
  });
});

describe('a name', () => {
  let server: DnsServer;
  let rules: EgressRules;

  beforeAll(async () => {
    server = await startDnsServer();
  });
  afterAll(() => server.close());
  beforeEach(() => {
    rules = { resolve: server.resolve };
  });

  it.each<[string, LookupAddress[]]>([
    ['loopback', [v4('127.0.0.1')]],
    ['a public address and then loopback', [v4('93.184.215.14'), v4('127.0.0.1')]],
    ['loopback and then a public address', [v4('127.0.0.1'), v4('93.184.215.14')]],
    ['a public IPv4 address and IPv6 loopback', [v4('93.184.215.14'), v6('::1')]],
    ['a public IPv6 address and IPv4 loopback', [v6('2606:4700::1111'), v4('127.0.0.1')]],
    ['IPv4-mapped loopback', [v6('::ffff:127.0.0.1')]],
    ['the unspecified address', [v4('0.0.0.0'), v6('::')]],
    ['metadata', [v4('169.254.169.254')]],
    ['loopback behind NAT64', [v6('64:ff9b::7f00:1')]],
  ])('that points to %s is refused at PUT and at the connection', async (_what, addresses) => {
    server.result('mixed.example', addresses);
    const guard = new EgressGuard(rules);
    const url = `http://mixed.example:${canary.port}/`;
    expect(guard.checkUrl(url).kind).toBe('allowed');
    expect(await guard.checkEndpoint(url)).toEqual({
      kind: 'refused',
      reason: expect.stringMatching(
        /^mixed\.example points to an address that is not public \([A-Za-z() -]+\)$/,
      ),
    });
    const result = await senderWith(guard).send(post(url), { timeoutMs: 2_000 });
    expect(result).toMatchObject({ kind: 'failed', reason: 'egress' });
    expect(canary.connections).toBe(0);
  });

  it('that is rebound between PUT and the connection is refused without a connection', async () => {
    server.result('rebind.example', [v4('93.184.215.14')], [v4('127.0.0.1')]);
    const guard = new EgressGuard(rules);
    const url = `http://rebind.example:${canary.port}/`;
    expect(await guard.checkEndpoint(url)).toEqual({ kind: 'allowed' });
    const result = await senderWith(guard).send(post(url), { timeoutMs: 2_000 });
    expect(result).toMatchObject({ reason: 'egress' });
    expect(canary.connections).toBe(0);
  });

  it('is looked up once per connection: the checked address is the one that is connected to', async () => {
    server.result('once.example', [v4('127.0.0.1')], [v4('127.0.0.2')]);
    const guard = new EgressGuard({
      ...rules,
      allow: [{ address: '127.0.0.1', prefix: 32, family: 'ipv4' }],
    });
    const sender = senderWith(guard);
    const url = `http://once.example:${canary.port}/`;
    expect(await sender.send(post(url), { timeoutMs: 2_000 })).toMatchObject({ status: 200 });
    expect(server.lookups('once.example')).toBe(1);
    await sender.close();
    expect(await senderWith(guard).send(post(url), { timeoutMs: 2_000 })).toMatchObject({ reason: 'egress' });
    expect(canary.connections).toBe(1);
  });

  it.each(['http', 'https'])(
    'that passes the lookup is still refused by the peer address of the %s socket',
    async (scheme) => {
      server.result('lying.example', [v4('127.0.0.1')]);
      const guard = new EgressGuard(rules);
      const open = new EgressGuard({ ...rules, allow: everything() });
      Object.assign(guard, { lookupWithin: (ms: number) => open.lookupWithin(ms) });
      const result = await senderWith(guard).send(post(`${scheme}://lying.example:${canary.port}/`), {
        timeoutMs: 2_000,
      });
      expect(result).toMatchObject({
        reason: 'egress',
        detail: '127.0.0.1 is not a public address (loopback)',
      });
      await canary.closed();
      expect([canary.connections, canary.bytes]).toEqual([1, 0]);
    },
  );

  it('without an address can be registered, and fails with `dns` when called', async () => {
    const guard = new EgressGuard(rules);
    const url = `http://nowhere.example:${canary.port}/`;
    expect(await guard.checkEndpoint(url)).toEqual({ kind: 'allowed', unresolved: true });
    const result = await senderWith(guard).send(post(url), { timeoutMs: 2_000 });
    expect(result).toMatchObject({ reason: 'dns' });
  });

  it('is distinguished from an error of the guard', () => {
    expect(new EgressRefused('why')).toMatchObject({ code: 'EGRESS_REFUSED', message: 'why' });
  });
});

describe('looking up hosts', () => {
  it('makes one lookup for concurrent calls to a host', async () => {
    const system = fakeSystem();
    const { resolve } = new HostLookup(system.ask);
    const results = Array.from({ length: 50 }, () => resolve('a.example'));
    expect(system.asked).toEqual(['a.example']);
    system.result('a.example');
    expect(new Set(await Promise.all(results)).size).toBe(1);
    void resolve('a.example');
    expect(system.asked).toEqual(['a.example', 'a.example']);
  });

  it('leaves two of four threads to hosts that resolve, no matter how many hang', async () => {
    const system = fakeSystem();
    const { resolve } = new HostLookup(system.ask);
    const proven = ['a.example', 'b.example'].map(async (host) => {
      const result = resolve(host);
      system.result(host);
      return await result;
    });
    await Promise.all(proven);
    const hanging = Array.from({ length: 9 }, (_, index) => resolve(`hangs-${index}.example`));
    expect(system.waiting()).toEqual(['hangs-0.example', 'hangs-1.example']);
    const responded = Promise.all([resolve('a.example'), resolve('b.example')]);
    system.result('a.example');
    system.result('b.example');
    expect(await responded).toHaveLength(2);

    system.fail('hangs-0.example');
    await expect(hanging[0]).rejects.toMatchObject({ code: 'EAI_AGAIN' });
    expect(system.waiting()).toEqual(['hangs-1.example', 'hangs-2.example']);
    for (let index = 1; index < 9; index++) {
      system.result(`hangs-${index}.example`);
      await hanging[index];
    }
    expect(system.waiting()).toEqual([]);
  });

  it('prefers a new host over hosts that were slow the last time', async () => {
    const system = fakeSystem();
    const { resolve } = new HostLookup(system.ask, 0);
    const slow = [0, 1, 2, 3].map((n) => `slow-${n}.example`);
    for (const host of slow) {
      const result = resolve(host);
      system.result(host);
      await result;
    }
    const [first] = [...slow, 'new.example'].map((host) => resolve(host));
    expect(system.waiting()).toEqual(['slow-0.example', 'slow-1.example']);
    system.result('slow-0.example');
    await first;
    await until(() => system.waiting().length === 2);
    expect(system.waiting()).toEqual(['slow-1.example', 'new.example']);
  });

  it('fails as `local` when it is still queued at the deadline, and no other lookup is dropped', async () => {
    const system = fakeSystem();
    const { resolve } = new HostLookup(system.ask);
    const guard = new EgressGuard({ resolve });
    const call = (host: string) => senderWith(guard).send(post(`http://${host}/`), { timeoutMs: 500 });
    const hanging = ['hangs.example', 'hangs-2.example'].map(call);
    await until(() => system.waiting().length === 2);
    const patient = resolve('behind.example');
    expect(await call('behind.example')).toMatchObject({ reason: 'local', detail: 'LOOKUP_QUEUED' });
    for (const result of await Promise.all(hanging)) expect(result).toMatchObject({ reason: 'timeout' });
    system.result('hangs.example');
    await until(() => system.waiting().includes('behind.example'));
    system.result('behind.example');
    expect(await patient).toEqual([v4('8.8.8.8')]);
  });
});

interface Canary {
  readonly port: number;
  readonly connections: number;
  readonly bytes: number;
  /** Resolves when no connection is open. */
  closed(): Promise<void>;
  reset(): void;
  close(): Promise<void>;
}

/** Listens on every address of this machine, IPv4 and IPv6, counts requests and returns 200. */
async function startCanary(): Promise<Canary> {
  let [connections, bytes] = [0, 0];
  const open = new Set<Socket>();
  const server: Server = createServer((socket) => {
    connections += 1;
    open.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => open.delete(socket));
    socket.on('data', (chunk) => {
      bytes += chunk.length;
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n');
    });
  });
  server.listen(0);
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    get connections() {
      return connections;
    },
    get bytes() {
      return bytes;
    },
    closed: async () => {
      while (open.size > 0 || connections === 0) {
        await (open.size > 0 ? once([...open][0]!, 'close') : once(server, 'connection'));
      }
    },
    reset: () => {
      [connections, bytes] = [0, 0];
    },
    close: async () => {
      for (const socket of open) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

interface DnsServer {
  /** The addresses of a name at its first lookup, its second …; the last entry stays. */
  result(name: string, ...turns: LookupAddress[][]): void;
  lookups(name: string): number;
  resolve(host: string): Promise<LookupAddress[]>;
  close(): Promise<void>;
}

/** A name server over UDP, used by Node's own resolver. A lookup is one query for A and one for AAAA. */
async function startDnsServer(): Promise<DnsServer> {
  const zone = new Map<string, LookupAddress[][]>();
  const asked = new Map<string, number>();
  const socket: UdpSocket = createSocket('udp4');
  socket.on('message', (query, { port, address }) => {
    const { name, type } = questionOf(query);
    const turn = (asked.get(`${name}/${type}`) ?? 0) + 1;
    asked.set(`${name}/${type}`, turn);
    const turns = zone.get(name);
    const addresses = turns?.[Math.min(turn, turns.length) - 1];
    socket.send(dnsAnswer(query, type, addresses), port, address);
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  const resolver = new dns.Resolver({ timeout: 500, tries: 1 });
  resolver.setServers([`127.0.0.1:${socket.address().port}`]);
  return {
    result: (name, ...turns) => void zone.set(name, turns),
    lookups: (name) => asked.get(`${name}/${A}`) ?? 0,
    resolve: async (host) => {
      const [four, six] = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
      if (four.status === 'rejected' && six.status === 'rejected') throw four.reason;
      return [
        ...(four.status === 'fulfilled' ? four.value : []),
        ...(six.status === 'fulfilled' ? six.value : []),
      ].map((address) => (address.includes(':') ? v6(address) : v4(address)));
    },
    close: async () => {
      resolver.cancel();
      socket.close();
      await once(socket, 'close');
    },
  };
}

const A = 1;
const AAAA = 28;

function questionOf(query: Buffer): { name: string; type: number; end: number } {
  const labels: string[] = [];
  let at = 12;
  while (query[at] !== 0) {
    labels.push(query.toString('latin1', at + 1, at + 1 + query[at]!));
    at += query[at]! + 1;
  }
  return { name: labels.join('.'), type: query.readUInt16BE(at + 1), end: at + 5 };
}

function dnsAnswer(query: Buffer, type: number, addresses: readonly LookupAddress[] | undefined): Buffer {
  const records = (addresses ?? [])
    .filter(({ family }) => type === (family === 4 ? A : AAAA))
    .map(({ address, family }) => {
      const data = family === 4 ? Buffer.from(address.split('.').map(Number)) : ipv6Bytes(address);
      const head = Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0, 0, 0, data.length]);
      return Buffer.concat([head, data]);
    });
  const header = Buffer.from(query.subarray(0, 12));
  header.writeUInt16BE(addresses === undefined ? 0x8183 : 0x8180, 2);
  header.writeUInt16BE(records.length, 6);
  header.writeUInt32BE(0, 8);
  return Buffer.concat([header, query.subarray(12, questionOf(query).end), ...records]);
}

/** Through the URL parser, which writes every address in hexadecimal groups. */
function ipv6Bytes(address: string): Buffer {
  const [head = '', tail] = new URL(`http://[${address}]/`).hostname.slice(1, -1).split('::');
  const groups = (text: string) =>
    text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16));
  const [first, last] = [groups(head), groups(tail ?? '')];
  const all = [...first, ...Array.from({ length: 8 - first.length - last.length }, () => 0), ...last];
  return Buffer.from(all.flatMap((group) => [group >> 8, group & 255]));
}

/** getaddrinfo, which returns when the test says so. */
function fakeSystem() {
  const asked: string[] = [];
  const open = new Map<string, { resolve(result: LookupAddress[]): void; reject(error: Error): void }>();
  const end = (host: string) => {
    const { resolve, reject } = open.get(host)!;
    open.delete(host);
    return { resolve, reject };
  };
  return {
    asked,
    waiting: () => [...open.keys()],
    ask: (host: string) =>
      new Promise<LookupAddress[]>((resolve, reject) => {
        asked.push(host);
        open.set(host, { resolve, reject });
      }),
    result: (host: string) => end(host).resolve([v4('8.8.8.8')]),
    fail: (host: string) => end(host).reject(Object.assign(new Error(), { code: 'EAI_AGAIN' })),
  };
}

function v4(address: string): LookupAddress {
  return { address, family: 4 };
}

function v6(address: string): LookupAddress {
  return { address, family: 6 };
}

function everything() {
  return [
    { address: '0.0.0.0', prefix: 0, family: 'ipv4' },
    { address: '::', prefix: 0, family: 'ipv6' },
  ] as const;
}

function senderWith(guard: EgressGuard): WebhookSender {
  const sender = new WebhookSender(guard);
  senders.push(sender);
  return sender;
}

let listeners = 0;

/** Each with its own listener: no connection is reused. */
function post(url: string): WebhookRequest {
  listeners += 1;
  return {
    listener: listeners,
    connections: 1,
    url,
    headers: ['content-type', 'application/json'],
    body: '{}',
    deliveryId: '3d0ca315-8828-4ce5-9f5b-7e3c0a1d2e4f',
    traceparent: undefined,
  };
}
