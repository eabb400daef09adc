import { createHash, randomBytes } from 'node:crypto';
import { link, mkdir, open, readFile, rm } from 'node:fs/promises';
import { resolve } from 'node:path';
import { Inject, Injectable } from '@nestjs/common';
import { type ConfiguredMasterKey, parseSecretsKeys } from '../../config/secrets-keys-variable.ts';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import type { MasterKey } from './sealed-box.ts';

/** There is no key to encrypt with, and none could be generated; the message has the next step. */
export class NoMasterKey extends Error {}

/**
 * The keys that encrypt secrets in the database; they are never stored in it. Those of SECRETS_KEYS (the first one seals, all
 * open), else one that is generated once and stored in DATA_DIRECTORY. Its file contains a valid SECRETS_KEYS, so that both
 * machines can be given it when a second one is added; and it keeps opening what it sealed.
 */
@Injectable()
export class MasterKeys {
  private readonly configured: readonly MasterKey[];
  private readonly file: string;
  private stored: readonly MasterKey[] = [];

  constructor(
    @Inject(SETTINGS_TOKEN) settings: Pick<Settings, 'secretsKeys' | 'dataDirectory'>,
    @Inject(LOG) private readonly log: Log,
  ) {
    this.configured = settings.secretsKeys.map(masterKey);
    this.file = resolve(settings.dataDirectory, 'secrets.key');
  }

  /** The key that seals. */
  async sealing(): Promise<MasterKey> {
    const [first] = this.configured;
    return first ?? (await this.fromFile()) ?? (await this.generate());
  }

  async find(id: string): Promise<MasterKey | undefined> {
    const known = [...this.configured, ...this.stored].find((key) => key.id === id);
    if (known) return known;
    await this.fromFile();
    return this.stored.find((key) => key.id === id);
  }

  /** Read each time: another replica on this machine may just have generated it. */
  private async fromFile(): Promise<MasterKey | undefined> {
    const text = await readFile(this.file, 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return undefined;
      throw new NoMasterKey(`${this.file} cannot be read (${error.code}): make it readable, or ${NEXT_STEP}`);
    });
    if (text === undefined) return undefined;
    const keys = parseSecretsKeys(text);
    if (!keys) throw new NoMasterKey(`${this.file} holds no key: put the right one back, or ${NEXT_STEP}`);
    this.stored = keys.map(masterKey);
    return this.stored[0];
  }

  private async generate(): Promise<MasterKey> {
    try {
      await mkdir(resolve(this.file, '..'), { recursive: true });
      if (await writeOnce(this.file, newKey()))
        this.log.warn(
          { event: 'secrets.key-generated', file: this.file },
          'a key that encrypts the secrets of listeners was generated: keep its file; replicas on other machines need it as SECRETS_KEYS',
        );
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      throw new NoMasterKey(`no key can be stored in ${this.file} (${code}): ${NEXT_STEP}`);
    }
    return (await this.fromFile())!;
  }
}

const NEXT_STEP = 'set SECRETS_KEYS, the same for all replicas, and start again';

function masterKey({ id, key }: ConfiguredMasterKey): MasterKey {
  return { id, bytes: Buffer.from(key, 'base64') };
}

function newKey(): string {
  const bytes = randomBytes(32);
  const id = `file-${createHash('sha256').update(bytes).digest('hex').slice(0, 12)}`;
  return `${id}=${bytes.toString('base64')}\n`;
}

/** Atomic, and the first one wins: replicas that start together all use the same key. */
async function writeOnce(path: string, text: string): Promise<boolean> {
  const half = `${path}.${process.pid}.${randomBytes(4).toString('hex')}`;
  const file = await open(half, 'wx', 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
    await file.close();
    await link(half, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  } finally {
    await file.close().catch(() => undefined);
    await rm(half, { force: true });
  }
}
