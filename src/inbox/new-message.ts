import { randomUUID } from 'node:crypto';
import { laneOf } from '../lanes/lane-of.ts';

/** A message as accepted, not yet stored. JSON stays text: it is stored exactly as it was sent. */
export interface NewMessage {
  readonly id: string;
  /** (source, id) identifies a message. */
  readonly source: string;
  readonly type: string;
  readonly key: string;
  /** It was sent without a key, so its key is its id. It does not belong to other messages of that key: it neither supersedes nor holds them. */
  readonly keyless: boolean;
  readonly lane: number;
  /** JSON text. */
  readonly payload: string;
  readonly headers: Readonly<Record<string, string>> | undefined;
  readonly occurredAt: string | undefined;
  readonly dueAt: string | undefined;
  readonly expiresAt: string | undefined;
  readonly producer: ProducerSequence | undefined;
}

/** A producer is identified by the api key it posts with and its own id, for all sources of its messages. */
export interface ProducerSequence {
  readonly caller: string;
  readonly id: string;
  readonly sequence: number;
}

/** The number of lanes is fixed: every row stores its lane, so a change would have to rewrite all rows. */
export const INBOX_LANES = 256;

type Optional = 'headers' | 'occurredAt' | 'dueAt' | 'expiresAt' | 'producer';
type Fields = Pick<NewMessage, 'source' | 'type' | 'payload'> &
  Partial<Pick<NewMessage, Optional>> & {
    readonly id?: string | undefined;
    readonly key?: string | undefined;
  };

/** Without an id it gets a random one; without a key its key is its id. */
export function newMessage(fields: Fields): NewMessage {
  const id = fields.id ?? randomUUID();
  const key = fields.key ?? id;
  return {
    id,
    source: fields.source,
    type: fields.type,
    key,
    keyless: fields.key === undefined,
    lane: laneOf(key, INBOX_LANES),
    payload: fields.payload,
    headers: fields.headers,
    occurredAt: fields.occurredAt,
    dueAt: fields.dueAt,
    expiresAt: fields.expiresAt,
    producer: fields.producer,
  };
}

/** The source of messages in the native format is the api key they are posted with; CloudEvents have a source of their own. */
export function sourceOfCaller(name: string): string {
  return `urn:sluice:api-keys/${name}`;
}
