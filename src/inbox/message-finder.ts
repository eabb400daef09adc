import { Injectable } from '@nestjs/common';
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
  constructor(private readonly messages: MessagesStore) {}

  /** If several sources used the id: the message of the requested source, or the caller's own one. */
  async find(id: string, { source, caller, withPayload }: Request): Promise<FoundMessage> {
    const rows = id.includes('\u0000') ? [] : await this.messages.find(id, source, withPayload);
    const own = sourceOfCaller(caller.name);
    const row = rows.length > 1 ? rows.find((one) => one.source === own) : rows[0];
    if (row) return row;
    if (rows.length === 0)
      throw new Problem('not-found', 'No message has this id, or its retention is over.');
    const sources = rows.map((one) => one.source).join(', ');
    throw new Problem('conflict', `Several sources used this id; add ?source= with one of: ${sources}`);
  }
}
