import { hkdfSync, randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { Inject, Injectable } from '@nestjs/common';
import { type ConfiguredMasterKey, parseSecretsKeys } from '../../config/secrets-keys-variable.ts';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';

/**
 * The keys that sign sessions. Derived from SECRETS_KEYS, so that a session is valid on every replica without being stored;
 * else from the key in DATA_DIRECTORY, which replicas on one machine share. Without either, one key per process: a session
 * is valid on the replica that started it and ends with it.
 */
@Injectable()
export class SessionKeys {
  private readonly configured: readonly Buffer[];
  private readonly file: string;
  private ofFile: readonly Buffer[] = [];
  private readonly ofProcess = randomBytes(32);

  constructor(@Inject(SETTINGS_TOKEN) settings: Pick<Settings, 'secretsKeys' | 'dataDirectory'>) {
    this.configured = settings.secretsKeys.map(signingKey);
    this.file = resolve(settings.dataDirectory, 'secrets.key');
  }

  async signing(): Promise<Buffer> {
    return (await this.all())[0]!;
  }

  /** The one that signs is first. */
  async all(): Promise<readonly Buffer[]> {
    if (this.configured.length > 0) return this.configured;
    // It is written when the first secret is encrypted, which may be after the start, and does not change.
    if (this.ofFile.length === 0) this.ofFile = await this.readFile();
    return [...this.ofFile, this.ofProcess];
  }

  private async readFile(): Promise<readonly Buffer[]> {
    const text = await readFile(this.file, 'utf8').catch(() => '');
    return (parseSecretsKeys(text) ?? []).map(signingKey);
  }
}

/** Another key than the one that encrypts secrets: neither reveals anything about the other. */
function signingKey({ key }: ConfiguredMasterKey): Buffer {
  return Buffer.from(hkdfSync('sha256', Buffer.from(key, 'base64'), '', 'sluice session', 32));
}
