import { describe, expect, it } from '@jest/globals';
import { loadSettings } from '../config/settings.ts';
import { EgressGuard } from './egress-guard.ts';

/** The resolver knows no name: what is refused is refused by its name. */
const guarded = (EGRESS_ALLOW = '') =>
  new EgressGuard({
    allow: loadSettings({ EGRESS_ALLOW }).egressAllow,
    resolve: async () => {
      throw Object.assign(new Error('not known'), { code: 'ENOTFOUND' });
    },
  });
const kindOf = async (guard: EgressGuard, host: string) =>
  (await guard.checkEndpoint(`http://${host}:8080/hook`)).kind;

const LOOPBACK = [
  'localhost',
  'LocalHost',
  'localhost.',
  'localhost..',
  'localhost%2e',
  'localhost。',
  'ⓛⓞⓒⓐⓛⓗⓞⓢⓣ',
  'loc\u00adalhost',
  'a.localhost',
  'a.b.localhost.',
  'localhost.localdomain',
  'localhost.localdomain.',
  'localhost4',
  'localhost6',
  'localhost4.localdomain4',
  'localhost6.localdomain6',
  'ip6-localhost',
  'IP6-LOOPBACK.',
];
const METADATA = [
  'metadata.google.internal',
  'metadata.google.internal.',
  'METADATA.Google.Internal',
  'ｍｅｔａｄａｔａ.google.internal',
  'any.metadata.google.internal',
  'metadata.azure.internal',
  'instance-data.ec2.internal',
  'instance-data.eu-west-1.compute.internal',
  'instance-data',
  'metadata',
  'metadata.goog',
  'metadata.tencentyun.com',
];
const OTHERS = [
  'localhost.example.com',
  'mylocalhost',
  'localhosts',
  'localhost4.localdomain6',
  'nas.localdomain',
  'host.docker.internal',
  'billing.internal',
  'billing.prod.svc.cluster.local',
  'metadata.example.com',
  'metadata-internal',
];

describe('a host that has one meaning everywhere', () => {
  it.each([...LOOPBACK, ...METADATA])('is refused at PUT although it does not resolve: %s', async (host) => {
    expect(await guarded().checkEndpoint(`http://${host}:8080/hook`)).toEqual({
      kind: 'refused',
      reason: expect.stringMatching(/is the name of an address that is not public \((loopback|metadata)\)$/),
    });
    expect(guarded().refusalOfTarget(new URL(`http://${host}`).hostname, 8080)).toMatch(/not public/);
  });

  it.each(OTHERS)('is not confused with a similar name: %s', async (host) => {
    expect(await kindOf(guarded(), host)).toBe('allowed');
  });

  it.each([
    ['127.0.0.0/8', LOOPBACK, METADATA],
    ['::1', LOOPBACK, METADATA],
    ['169.254.169.254+metadata', METADATA, LOOPBACK],
    ['10.0.0.0/8', [], [...LOOPBACK, ...METADATA]],
  ])('is allowed if EGRESS_ALLOW=%s allows its address, and no other is', async (allow, taken, refused) => {
    const guard = guarded(allow);
    for (const host of taken) expect([host, await kindOf(guard, host)]).toEqual([host, 'allowed']);
    for (const host of refused) expect([host, await kindOf(guard, host)]).toEqual([host, 'refused']);
  });
});
