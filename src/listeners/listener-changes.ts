import { isDeepStrictEqual } from 'node:util';
import { Inject, Injectable } from '@nestjs/common';
import { isBrokerMode } from '../brokers/broker.ts';
import type { BrokerCredentials } from '../brokers/broker-definition.ts';
import type { Transaction } from '../database/transaction.ts';
import { type Action, AuditLog } from '../http/audit/audit-log.ts';
import { Problem } from '../http/problems.ts';
import { LOG, type Log } from '../telemetry/logger.ts';
import { newSecret } from '../webhooks/webhook-request.ts';
import { DEFAULT_LANES, modeOf, storedDefinition } from './effective-definition.ts';
import type { ListenerMode, ListenerState } from './listener.ts';
import type { ListenerDefinition } from './listener-definition.ts';
import type { RotatedSecret } from './listeners.openapi.ts';
import { Listeners } from './listeners.ts';
import {
  type ListenerContent,
  type ListenerRow,
  ListenersStore,
  noListener,
  type StateChange,
} from './listeners-store.ts';
import { type Confidential, ConfidentialBox } from './secrets/confidential.ts';
import { NoMasterKey } from './secrets/master-keys.ts';
import { MAX_SECRETS, rotated, signingNow } from './secrets/signing-secrets.ts';

export interface Put {
  readonly row: ListenerRow;
  readonly created: boolean;
  /** Shown once, in the response to the request that generated it. */
  readonly secret: string | undefined;
}

/** All changes of a listener by API. Effective on this replica at once, on the others within 2 s. */
@Injectable()
export class ListenerChanges {
  constructor(
    private readonly store: ListenersStore,
    private readonly box: ConfidentialBox,
    private readonly listeners: Listeners,
    private readonly audit: AuditLog,
    @Inject(LOG) private readonly log: Log,
  ) {}

  /** Creates a listener, replaces it, or brings a deleted one back with its number and its pending deliveries. */
  put(name: string, definition: ListenerDefinition, by: string): Promise<Put> {
    return this.change(async (tx) => {
      await this.audit.record({ by, action: 'listener.put', target: name }, tx);
      const row = await this.store.findAny(name, tx);
      refuseOtherLanes(row, definition);
      const replaces = row !== undefined && row.deleted_at === null;
      if (replaces) refuseOfFile(row, 'change it there');
      const switches = row !== undefined && modeOf(row.definition) !== modeOf(definition);
      if (switches) await this.switchMode(row, definition, tx);
      const before = replaces && !switches ? await this.open(row) : undefined;
      const secrets = before?.secrets ?? newSecrets(definition);
      const credentials = credentialsOf(definition, row, before);
      const content = await this.content(
        name,
        { ...definition, ...(credentials && { credentials }) },
        secrets,
      );
      const lanes = definition.lanes ?? DEFAULT_LANES;
      const written = replaces
        ? await this.store.replace(content, by, tx)
        : row
          ? await this.store.bringBack(content, 'api', by, tx)
          : await this.store.insert(content, { lanes, origin: 'api', by }, tx);
      const isNew = !replaces || switches;
      return { row: written, created: !replaces, secret: isNew ? secrets[0]?.secret : undefined };
    });
  }

  /** Its pending deliveries stay, and wait for a listener of this name. */
  remove(name: string, by: string): Promise<void> {
    return this.change(async (tx) => {
      refuseOfFile(await this.find(name, tx), 'remove it there');
      await this.store.delete(name, by, tx);
      await this.audit.record({ by, action: 'listener.delete', target: name }, tx);
    });
  }

  /** The old secret keeps signing for 24 hours, in addition to the new one. */
  rotateSecret(name: string, by: string): Promise<RotatedSecret> {
    return this.change(async (tx) => {
      const row = await this.find(name, tx);
      refuseWithoutSecret(row);
      if (row.secret_from === 'file') refuseOfFile(row, 'give it another secret there');
      const [content, { now }] = [await this.open(row), await this.store.revision(tx)];
      if (signingNow(content.secrets, now).length >= MAX_SECRETS)
        throw new Problem(
          'conflict',
          `Its secret was rotated ${MAX_SECRETS - 1} times within 24 hours; wait.`,
        );
      const secret = newSecret();
      const secrets = rotated(content.secrets, secret, now);
      const definition = { ...row.definition, headers: content.headers, url: content.url };
      await this.store.replace(await this.content(name, definition, secrets), by, tx);
      await this.audit.record({ by, action: 'listener.rotate-secret', target: name }, tx);
      return { secret, oldSecretUntil: secrets[1]!.until! };
    });
  }

  pause(name: string, reason: string | undefined, by: string): Promise<ListenerRow> {
    return this.setState(name, 'paused', 'listener.pause', {
      from: ['active', 'disabled'],
      reason: reason ?? null,
      by,
    });
  }

  /** Also resumes a disabled one. */
  resume(name: string, by: string): Promise<ListenerRow> {
    return this.setState(name, 'active', 'listener.resume', {
      from: ['paused', 'disabled'],
      reason: null,
      by,
    });
  }

  private setState(
    name: string,
    state: ListenerState,
    action: Action,
    change: StateChange,
  ): Promise<ListenerRow> {
    return this.change(async (tx) => {
      const { by, reason } = change;
      const changed = await this.store.setState(name, state, change, tx);
      if (changed) await this.audit.record({ by, action, target: name, reason: reason ?? undefined }, tx);
      return this.find(name, tx);
    });
  }

  private async switchMode(row: ListenerRow, definition: ListenerDefinition, tx: Transaction): Promise<void> {
    if (await this.store.switchMode(row.number, modeOf(definition), tx)) return;
    throw new Problem(
      'conflict',
      `It has ${PENDING_OF[modeOf(row.definition)]}; wait until none is pending.`,
      {
        errors: [{ pointer: '/mode', detail: `must be "${modeOf(row.definition)}"` }],
      },
    );
  }

  private async content(
    name: string,
    definition: ListenerDefinition,
    secrets: Confidential['secrets'],
  ): Promise<ListenerContent> {
    const { url = '', headers = {}, credentials } = definition;
    const sealed = await this.seal(name, { secrets, headers, url, credentials });
    return { name, definition: storedDefinition(definition), sealed, secretFrom: 'service' };
  }

  private async seal(name: string, confidential: Confidential): Promise<string> {
    try {
      return await this.box.seal(name, confidential);
    } catch (error) {
      if (!(error instanceof NoMasterKey)) throw error;
      this.log.error(
        { event: 'secrets.no-key', error },
        'there is no key to encrypt the secrets of listeners',
      );
      throw new Problem(
        'conflict',
        'This service has no key to encrypt a secret with; set SECRETS_KEYS first.',
      );
    }
  }

  private async open(row: ListenerRow): Promise<Confidential> {
    const opened = await this.box.open(row);
    if (opened.kind === 'opened') return opened.content;
    throw new Problem(
      'conflict',
      `Its secrets cannot be read (${opened.reason}). Put the key back into SECRETS_KEYS; or delete the listener and ` +
        'create it again for a new secret: its pending deliveries stay.',
    );
  }

  private async find(name: string, tx: Transaction): Promise<ListenerRow> {
    const row = await this.store.findAny(name, tx);
    if (!row || row.deleted_at) throw noListener();
    return row;
  }

  private async change<Result>(work: (tx: Transaction) => Promise<Result>): Promise<Result> {
    const result = await this.store.change(work);
    await this.listeners.refreshAfterChange();
    return result;
  }
}

/** The lane of a key depends on the number of lanes: with another number, new deliveries of a key could overtake old ones. */
function refuseOtherLanes(row: ListenerRow | undefined, { lanes }: ListenerDefinition): void {
  if (!row || lanes === undefined || lanes === row.lanes) return;
  throw new Problem(
    'conflict',
    `A listener keeps its number of lanes, here ${row.lanes}${row.deleted_at ? ', even when it is deleted' : ''}; ` +
      `leave lanes out, or create a listener of another name with ${lanes}.`,
    { errors: [{ pointer: '/lanes', detail: `must be ${row.lanes}` }] },
  );
}

const FOR_BROKER = 'deliveries that are meant for its broker';
const PENDING_OF: Readonly<Record<ListenerMode, string>> = {
  webhook: 'deliveries that are meant for its endpoint',
  pull: 'messages that are meant for its consumers',
  nats: FOR_BROKER,
  rabbitmq: FOR_BROKER,
  kafka: FOR_BROKER,
};

function newSecrets(definition: ListenerDefinition): Confidential['secrets'] {
  return modeOf(definition) === 'webhook' ? [{ secret: newSecret() }] : [];
}

/**
 * A definition without credentials keeps those that it had: they are never shown, so a client cannot repeat them. Not for
 * other servers, which could otherwise be made to receive them.
 */
function credentialsOf(
  definition: ListenerDefinition,
  row: ListenerRow | undefined,
  before: Confidential | undefined,
): BrokerCredentials | undefined {
  const mode = modeOf(definition);
  if (definition.credentials || !before || !row || !isBrokerMode(mode)) return definition.credentials;
  const sameServers = isDeepStrictEqual(row.definition[mode]?.servers, definition[mode]?.servers);
  return sameServers ? before.credentials : undefined;
}

function refuseWithoutSecret({ definition }: ListenerRow): void {
  const mode = modeOf(definition);
  if (mode !== 'webhook')
    throw new Problem('conflict', `This listener has the mode "${mode}": it has no secret.`);
}

/** For what needs a receiver. */
export function refusePulled({ definition }: Pick<ListenerRow, 'definition'>, reason: string): void {
  if (modeOf(definition) === 'pull')
    throw new Problem('conflict', `This listener has the mode "pull": ${reason}.`);
}

function refuseOfFile(row: ListenerRow, nextStep: string): void {
  if (row.origin === 'file')
    throw new Problem('conflict', `This listener comes from LISTENERS_FILE; ${nextStep} and start again.`);
}
