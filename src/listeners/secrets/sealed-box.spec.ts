import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { sealedByPreviousVersion } from '../../../test/support/sealed-by-previous-version.ts';
import { loadSettings } from '../../config/settings.ts';
import { createLog } from '../../telemetry/logger.ts';
import { ConfidentialBox } from './confidential.ts';
import { MasterKeys, NoMasterKey } from './master-keys.ts';
import { keyIdOf, open, seal } from './sealed-box.ts';
import { isSecret, rotated, signingNow } from './signing-secrets.ts';

const KEY = { id: 'k1', bytes: randomBytes(32) };
const TEXT = 'whsec_plain and "quoted" ü';

describe('a sealed box', () => {
  it('returns what was sealed, and is different each time', () => {
    const [one, other] = [seal(TEXT, 'listener a', KEY), seal(TEXT, 'listener a', KEY)];
    expect(open(one, 'listener a', KEY)).toEqual({ text: TEXT });
    expect(one).not.toBe(other);
    expect(keyIdOf(one)).toBe('k1');
    expect(Buffer.from(one.split(':')[2]!, 'base64url').toString('latin1')).not.toContain('whsec');
  });

  it('does not open for another row', () => {
    expect(open(seal(TEXT, 'listener a', KEY), 'listener b', KEY)).toEqual({
      refused: expect.stringContaining('of another listener'),
    });
  });

  it('does not open with another key, nor under the id of another one', () => {
    const sealed = seal(TEXT, 'listener a', KEY);
    expect(open(sealed, 'listener a', { ...KEY, bytes: randomBytes(32) })).toHaveProperty('refused');
    const renamed = sealed.replace('v2:k1:', 'v2:k2:');
    expect(open(renamed, 'listener a', { ...KEY, id: 'k2' })).toHaveProperty('refused');
  });

  it('does not open when any bit of it was changed, or an end cut off', () => {
    const sealed = seal(TEXT, 'listener a', KEY);
    const bytes = Buffer.from(sealed.split(':')[2]!, 'base64url');
    for (let at = 0; at < bytes.length; at++) {
      const changed = Buffer.from(bytes);
      changed[at]! ^= 1;
      const box = `v2:k1:${changed.toString('base64url')}`;
      expect([at, 'refused' in open(box, 'listener a', KEY)]).toEqual([at, true]);
      const cut = `v2:k1:${bytes.subarray(0, at).toString('base64url')}`;
      expect([at, 'refused' in open(cut, 'listener a', KEY)]).toEqual([at, true]);
    }
  });
});

describe('a master key', () => {
  const content = { secrets: [{ secret: 'whsec_x' }], headers: { a: 'b' }, url: 'https://a.example/b' };
  const row = (sealed: string, url?: string) => ({ name: 'a', sealed, definition: { url } });

  it('is created once, even by concurrent callers, and only its owner can read it', async () => {
    const folder = join(mkdtempSync(join(tmpdir(), 'keys-')), 'data');
    const ten = Array.from({ length: 10 }, () => keys({ DATA_DIRECTORY: folder }));
    const made = await Promise.all(ten.map((one) => one.sealing()));

    expect(new Set(made.map(({ id, bytes }) => `${id} ${bytes.toString('hex')}`)).size).toBe(1);
    expect(readdirSync(folder)).toEqual(['secrets.key']);
    expect(statSync(join(folder, 'secrets.key')).mode & 0o777).toBe(0o600);
  });

  it('that was created is a valid SECRETS_KEYS', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'keys-'));
    const made = await keys({ DATA_DIRECTORY: folder }).sealing();
    const SECRETS_KEYS = readFileSync(join(folder, 'secrets.key'), 'utf8').trim();
    expect(await keys({ SECRETS_KEYS, DATA_DIRECTORY: '/nowhere' }).sealing()).toEqual(made);
  });

  it('that cannot be stored is not used: the message names the setting', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'keys-'));
    writeFileSync(join(folder, 'file'), '');
    const nowhere = keys({ DATA_DIRECTORY: join(folder, 'file', 'data') });
    await expect(nowhere.sealing()).rejects.toThrow(NoMasterKey);
    await expect(nowhere.sealing()).rejects.toThrow(/set SECRETS_KEYS, the same for all replicas/);
  });

  it('whose file is broken is not replaced', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'keys-'));
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'secrets.key'), 'half a k');
    await expect(keys({ DATA_DIRECTORY: folder }).sealing()).rejects.toThrow(/holds no key/);
    expect(readFileSync(join(folder, 'secrets.key'), 'utf8')).toBe('half a k');
  });

  it('opens what it sealed when it is the second one, and is named when it is missing', async () => {
    const [k1, k2] = [entry('k1'), entry('k2')];
    const before = new ConfidentialBox(keys({ SECRETS_KEYS: k1 }));
    const during = new ConfidentialBox(keys({ SECRETS_KEYS: `${k2},${k1}` }));
    const after = new ConfidentialBox(keys({ SECRETS_KEYS: k2 }));
    const old = await before.seal('a', content);
    expect(await during.open(row(old))).toEqual({ kind: 'opened', content });
    expect([await before.isOutdated(old), await during.isOutdated(old)]).toEqual([false, true]);
    expect(await after.open(row(old))).toEqual({ kind: 'locked', reason: 'key k1 is not in SECRETS_KEYS' });
    expect(await after.open(row(await during.seal('a', content)))).toEqual({ kind: 'opened', content });
  });
});

describe('a box of the previous version', () => {
  const { url, ...before } = { secrets: [{ secret: 'whsec_x' }], headers: {}, url: 'https://a.example/b' };

  it('is opened, with the URL stored next to it, and is outdated', async () => {
    const k1 = entry('k1');
    const box = new ConfidentialBox(keys({ SECRETS_KEYS: k1 }));
    const sealed = sealedByPreviousVersion('a', before, k1);
    const row = { name: 'a', sealed, definition: { url } };
    expect(await box.open(row)).toEqual({ kind: 'opened', content: { ...before, url } });
    expect(await box.isOutdated(sealed)).toBe(true);
  });

  it('does not open as one of this version, nor the other way round', async () => {
    const k1 = entry('k1');
    const box = new ConfidentialBox(keys({ SECRETS_KEYS: k1 }));
    const [old, now] = [sealedByPreviousVersion('a', before, k1), await box.seal('a', { ...before, url })];
    for (const sealed of [old.replace('v1:', 'v2:'), now.replace('v2:', 'v1:')])
      expect((await box.open({ name: 'a', sealed, definition: { url: 'https://evil.example/' } })).kind).toBe(
        'locked',
      );
  });
});

describe('SECRETS_KEYS', () => {
  it.each([
    'k1',
    'k1=',
    `k1=${randomBytes(31).toString('base64')}`,
    `k1=${randomBytes(33).toString('base64')}`,
    `${entry('k1')},${entry('k1')}`,
    `${entry('k1')},`,
    `k:1=${randomBytes(32).toString('base64')}`,
  ])('is refused without being shown: %#', (SECRETS_KEYS) => {
    expect(() => loadSettings({ SECRETS_KEYS })).toThrow(
      /^SECRETS_KEYS=\(hidden\) is not allowed; allowed: /,
    );
  });
});

describe('signing secrets', () => {
  const now = new Date('2026-01-01T00:00:00Z');
  const later = (hours: number) => new Date(now.getTime() + hours * 3_600_000);

  it('of a rotation all sign, each old one for 24 hours after it was replaced', () => {
    const first = rotated([{ secret: 'a' }], 'b', now);
    const second = rotated(first, 'c', later(10));
    const names = (at: Date) => signingNow(second, at).map(({ secret }) => secret);
    expect(names(later(23))).toEqual(['c', 'b', 'a']);
    expect(names(later(24))).toEqual(['c', 'b']);
    expect(names(later(34))).toEqual(['c']);
  });

  it('that are used again are current, not old', () => {
    const back = rotated(rotated([{ secret: 'a' }], 'b', now), 'a', later(1));
    expect(signingNow(back, later(2)).map(({ secret, until }) => [secret, until !== undefined])).toEqual([
      ['a', false],
      ['b', true],
    ]);
  });

  it.each([
    [`whsec_${randomBytes(24).toString('base64')}`, true],
    [`whsec_${randomBytes(32).toString('base64')}`, true],
    [`whsec_${randomBytes(64).toString('base64')}`, true],
    [`whsec_${randomBytes(23).toString('base64')}`, false],
    [`whsec_${randomBytes(65).toString('base64')}`, false],
    [randomBytes(32).toString('base64'), false],
    [`whsec_${'-'.repeat(44)}`, false],
    ['whsec_', false],
  ])('are recognised by their form: %#', (text, valid) => {
    expect(isSecret(text)).toBe(valid);
  });
});

function entry(id: string): string {
  return `${id}=${randomBytes(32).toString('base64')}`;
}

function keys(environment: Record<string, string>): MasterKeys {
  const settings = loadSettings(environment);
  return new MasterKeys(settings, createLog(settings, { write: () => undefined }));
}
