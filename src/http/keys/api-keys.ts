import { setTimeout as delay } from 'node:timers/promises';
import { Inject, Injectable, type OnApplicationBootstrap } from '@nestjs/common';
import { Loops } from '../../clock/loops.ts';
import type { Scope } from '../../config/api-keys-variable.ts';
import type { Binding } from '../../config/key-binding.ts';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import type { Caller } from '../access.ts';
import { hashOf, isSecretOf, newToken, tokenParts } from './api-key.ts';
import { ApiKeyStore, type LiveKey } from './api-key-store.ts';

/** Every replica must reject a revoked key within 5 s. */
const REFRESH_MS = 2_000;
/** An unknown key may be new, so it triggers a refresh, at most one per interval; the request waits for it. */
const MIN_REFRESH_GAP_MS = 100;

/** Authenticates api keys from memory, without a query per request. */
@Injectable()
export class ApiKeys implements OnApplicationBootstrap {
  /** Set if no api key is configured: every request from this machine is made by this caller. */
  readonly anonymous: Caller | undefined;
  private readonly configured: ReadonlyMap<string, LiveKey>;
  private stored: ReadonlyMap<string, LiveKey> = new Map();
  private refreshedAt = 0;
  private nextRefresh: Promise<void> | undefined;

  constructor(
    @Inject(SETTINGS_TOKEN) settings: Settings,
    private readonly store: ApiKeyStore,
    loops: Loops,
  ) {
    this.configured = new Map(
      settings.apiKeys.map(({ name, scopes, key, sources, keys }) => {
        const { id, secret } = tokenParts(key)!;
        return [id, { id, name, scopes, sources, keys, hash: hashOf(secret, { sources, keys }) }];
      }),
    );
    this.anonymous = this.configured.size ? undefined : { name: 'open', scopes: ['admin'] };
    loops.run('any', 'api-keys', REFRESH_MS, async () => {
      await this.refresh();
      return 'idle';
    });
  }

  async onApplicationBootstrap(): Promise<void> {
    await this.refresh();
  }

  /** Undefined if the token is unknown or revoked. */
  async callerOf(token: string): Promise<LiveKey | undefined> {
    const parts = tokenParts(token);
    if (!parts) return undefined;
    const key = await this.live(parts.id);
    return key && isSecretOf(parts.secret, key) ? key : undefined;
  }

  /** Undefined if it is unknown or revoked. */
  async live(id: string): Promise<LiveKey | undefined> {
    if (!this.find(id)) await this.refreshSoon();
    return this.find(id);
  }

  /** Returns the token, which is stored nowhere; undefined if the name is taken. */
  async create(name: string, scopes: readonly Scope[], { sources, keys }: Binding, by: Caller) {
    if ([...this.configured.values()].some((key) => key.name === name)) return undefined;
    const { id, secret, token } = newToken();
    const hash = hashOf(secret, { sources, keys });
    const createdAt = await this.store.insert({ id, name, scopes, sources, keys, hash }, by.name);
    if (!createdAt) return undefined;
    await this.refresh();
    return { id, name, scopes, sources: sources ?? null, keys: keys ?? null, createdAt, key: token };
  }

  async revoke(id: string, by: Caller): Promise<boolean> {
    const revoked = await this.store.revoke(id, by.name);
    await this.refresh();
    return revoked;
  }

  private find(id: string): LiveKey | undefined {
    return this.configured.get(id) ?? this.stored.get(id);
  }

  /** A refresh that is already running may have missed the key, so callers wait for the next one. */
  private refreshSoon(): Promise<void> {
    this.nextRefresh ??= delay(this.refreshedAt + MIN_REFRESH_GAP_MS - Date.now()).then(() => {
      this.nextRefresh = undefined;
      return this.refresh();
    });
    return this.nextRefresh;
  }

  private async refresh(): Promise<void> {
    this.refreshedAt = Date.now();
    this.stored = new Map((await this.store.live()).map((key) => [key.id, key]));
  }
}
