import { Injectable } from '@nestjs/common';
import type { Scope } from '../../config/api-keys-variable.ts';
import type { Binding } from '../../config/key-binding.ts';
import { Database } from '../../database/database.ts';
import type { Transaction } from '../../database/transaction.ts';
import { AuditLog } from '../audit/audit-log.ts';
import type { Sized } from '../page-bytes.ts';
import { ALL_KEYS, INSERT_KEY, LIVE_KEYS, REVOKE_KEY } from './api-key.sql.ts';

export interface LiveKey extends Binding {
  readonly id: string;
  readonly name: string;
  readonly scopes: readonly Scope[];
  readonly hash: Buffer;
}

interface KeyRow {
  readonly id: string;
  readonly name: string;
  readonly scopes: readonly Scope[];
  /** Null: no restriction. */
  readonly sources: readonly string[] | null;
  readonly keys: readonly string[] | null;
}

interface ListedRow extends KeyRow {
  readonly created_at: Date;
  readonly created_by: string;
  readonly revoked_at: Date | null;
}

export interface KeyRecord extends KeyRow {
  readonly createdAt: Date;
  readonly createdBy: string;
  readonly revokedAt: Date | null;
}

@Injectable()
export class ApiKeyStore {
  constructor(
    private readonly database: Database,
    private readonly audit: AuditLog,
  ) {}

  async live(): Promise<LiveKey[]> {
    const rows = await this.database.query<KeyRow & { secret_hash: Buffer }>(LIVE_KEYS);
    return rows.map(({ id, name, scopes, sources, keys, secret_hash }) => ({
      id,
      name,
      scopes,
      sources: sources ?? undefined,
      keys: keys ?? undefined,
      hash: secret_hash,
    }));
  }

  async list(afterId: string | undefined, limit: number): Promise<(KeyRecord & Sized)[]> {
    const rows = await this.database.query<ListedRow & Sized>(ALL_KEYS, [afterId ?? null, limit]);
    return rows.map(({ id, name, scopes, sources, keys, created_at, created_by, revoked_at, fits }) => ({
      ...{ id, name, scopes, sources, keys, fits },
      createdAt: created_at,
      createdBy: created_by,
      revokedAt: revoked_at,
    }));
  }

  /** Undefined if a live key has the name. */
  async insert(key: LiveKey, createdBy: string): Promise<Date | undefined> {
    const { id, name, scopes, hash, sources = null, keys = null } = key;
    const values = [id, name, scopes, hash, createdBy, sources, keys];
    return this.database.transaction(async (tx) => {
      const [row] = await tx.query<{ created_at: Date }>(INSERT_KEY, values);
      const target = `${name} (${id}): ${[scopes.join(', '), ...bindingWords(key)].join('; ')}`;
      if (row) await this.audit.record({ by: createdBy, action: 'api-key.create', target }, tx);
      return row?.created_at;
    });
  }

  async revoke(id: string, by: string): Promise<boolean> {
    return this.database.transaction((tx) => this.revokeIn(tx, id, by));
  }

  private async revokeIn(tx: Transaction, id: string, by: string): Promise<boolean> {
    const [row] = await tx.query<{ name: string; first: boolean }>(REVOKE_KEY, [id]);
    if (row?.first)
      await this.audit.record({ by, action: 'api-key.revoke', target: `${row.name} (${id})` }, tx);
    return row !== undefined;
  }
}

function bindingWords({ sources, keys }: Binding): string[] {
  return [
    ...(sources ? [`sources ${sources.join(', ')}`] : []),
    ...(keys ? [`keys ${keys.join(', ')}`] : []),
  ];
}
