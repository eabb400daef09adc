import { Injectable } from '@nestjs/common';
import type { BrokerCredentials } from '../../brokers/broker-definition.ts';
import { MasterKeys, NoMasterKey } from './master-keys.ts';
import { isOldForm, keyIdOf, open, seal } from './sealed-box.ts';

/** The part of a listener that is stored encrypted: its signing secrets, and fields that may contain credentials of its receiver. */
export interface Confidential {
  /** The current one first; the others still sign until they expire. */
  readonly secrets: readonly SigningSecret[];
  readonly headers: Readonly<Record<string, string>>;
  /** Path and query are often the only credential of an endpoint. */
  readonly url: string;
  /** Of a broker. */
  readonly credentials?: BrokerCredentials | undefined;
}

/** The part of a listener's row that a box is opened with. */
export interface SealedRow {
  readonly name: string;
  readonly sealed: string;
  /** The previous version stored the URL here, unencrypted. */
  readonly definition: { readonly url?: string | undefined };
}

export interface SigningSecret {
  /** `whsec_…` */
  readonly secret: string;
  /** RFC 3339; absent: the current one. */
  readonly until?: string;
}

export type OpenResult =
  | { readonly kind: 'opened'; readonly content: Confidential }
  | { readonly kind: 'locked'; readonly reason: string };

/**
 * A listener that is pulled, or a broker without credentials, has no secrets, so it needs no master key. The previous version cannot open this, and leaves
 * such a listener alone.
 */
const NOTHING_SEALED = 'v2:-';
export const NOTHING: Confidential = { secrets: [], headers: {}, url: '' };

/** Seals and opens the confidential part of a listener, bound to its name. */
@Injectable()
export class ConfidentialBox {
  constructor(private readonly keys: MasterKeys) {}

  async seal(name: string, content: Confidential): Promise<string> {
    const hasCredentials = Object.keys(content.credentials ?? {}).length > 0;
    if (content.secrets.length === 0 && !hasCredentials) return NOTHING_SEALED;
    const key = await this.keys.sealing();
    return seal(JSON.stringify(content), boundTo(name), key, hasCredentials ? 'broker' : 'listener');
  }

  async open({ name, sealed, definition }: SealedRow): Promise<OpenResult> {
    if (sealed === NOTHING_SEALED) return { kind: 'opened', content: NOTHING };
    const id = keyIdOf(sealed);
    if (id === undefined) return locked('it was changed');
    const key = await this.keys.find(id).catch(ifNoMasterKey);
    if (key instanceof NoMasterKey) return locked(key.message);
    if (!key) return locked(`key ${id} is not in SECRETS_KEYS`);
    const opening = open(sealed, boundTo(name), key);
    if ('refused' in opening) return locked(opening.refused);
    const content = JSON.parse(opening.text) as Confidential;
    return { kind: 'opened', content: { ...content, url: content.url ?? definition.url } };
  }

  /** Sealed with a key that is no longer the first one, or by the previous version. */
  async isOutdated(sealed: string): Promise<boolean> {
    if (sealed === NOTHING_SEALED) return false;
    return isOldForm(sealed) || keyIdOf(sealed) !== (await this.keys.sealing()).id;
  }
}

function locked(reason: string): OpenResult {
  return { kind: 'locked', reason };
}

function ifNoMasterKey(error: unknown): NoMasterKey {
  if (error instanceof NoMasterKey) return error;
  throw error;
}

function boundTo(name: string): string {
  return `listener ${name}`;
}
