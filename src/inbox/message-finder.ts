import { Injectable } from '@nestjs/common';
import { ArchivedMessages } from '../history/archived-messages.ts';
import type { HistoryMessage } from '../history/history-message.ts';
import { Problem } from '../http/problems.ts';
import { type FoundMessage, MessagesStore } from './messages-store.ts';
import { sourceOfCaller } from './new-message.ts';

interface Request {
  readonly source: string | undefined;
  readonly caller: { readonly name: string };
  /** The payload can be large: not everyone needs it. */
  readonly withPayload: boolean;
}

/** Finds a message for a caller by its id. */
@Injectable()
export class MessageFinder {
  constructor(
    private readonly messages: MessagesStore,
    private readonly archived: ArchivedMessages,
  ) {}

  /** If several sources used the id: the message of the requested source, or the caller's own one. */
  async find(id: string, { source, caller, withPayload }: Request): Promise<FoundMessage> {
    const own = sourceOfCaller(caller.name);
    const rows = id.includes('\u0000') ? [] : await this.findAll(id, { source, own, withPayload });
    const row = rows.length > 1 ? rows.find((one) => one.source === own) : rows[0];
    if (row) return row;
    if (rows.length === 0)
      throw new Problem('not-found', 'No message has this id, or its retention is over.');
    const sources = rows.map((one) => one.source).join(', ');
    throw new Problem('conflict', `Several sources used this id; add ?source= with one of: ${sources}`);
  }

  /** The inbox first: a message that is moved meanwhile is found in history. */
  private async findAll(
    id: string,
    wanted: { readonly source: string | undefined; readonly own: string; readonly withPayload: boolean },
  ): Promise<FoundMessage[]> {
    const { source, own, withPayload } = wanted;
    const stored = await this.messages.find(id, wanted);
    if (source !== undefined && stored.length > 0) return stored;
    const sources = new Set(stored.map((row) => row.source));
    const archived = (await this.archived.find(id, { source, own })).filter(
      (one) => !sources.has(one.source),
    );
    return [...stored, ...archived.map((one) => archivedRow(one, withPayload))];
  }
}

/** History keeps neither attempts nor when the message was settled. */
function archivedRow(message: HistoryMessage, withPayload: boolean): FoundMessage {
  const { position, id, source, type, key, headers, occurredAt, receivedMs, payload } = message;
  return {
    ...{ position, id, source, type, key, headers },
    occurred_at: occurredAt === null ? null : new Date(occurredAt),
    received_at: new Date(receivedMs),
    payload: withPayload ? payload : null,
    payload_bytes: Buffer.byteLength(payload),
    archived: true,
    status: 'finished',
    ...NOT_KEPT,
  };
}

const NOT_KEPT = {
  attempt: 0,
  error: null,
  due_at: null,
  expires_at: null,
  settled_at: null,
  superseded_by: null,
  ruling: null,
  producer: null,
  sequence: null,
} as const;
