export interface OutgoingMessage {
  /** A topic that exists; its name is the type unless there is one, which the topic must take. */
  readonly topic?: string | undefined;
  /** Required without a topic: the message goes to all listeners and topics of this type, if there are any. */
  readonly type?: string | undefined;
  /** Messages of one key keep their order. */
  readonly key?: string | undefined;
  /** Any value that JSON.stringify accepts. */
  readonly payload: unknown;
  /** Random by default. An id that follows from what happened makes sends of several processes one message. */
  readonly id?: string | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly occurredAt?: string | Date | undefined;
  readonly dueAt?: string | Date | undefined;
  readonly expiresAt?: string | Date | undefined;
}

/** A message as it is sent. It always has an id: the id in a response shows which message has a number. */
export interface Outgoing {
  readonly id: string;
  readonly key: string | undefined;
  /** Where it is posted, together with others of the same path. */
  readonly path: string;
  readonly text: string;
}

/** Serialised at once: what the caller does with the payload after `send` changes nothing. */
export function outgoing(message: OutgoingMessage): Outgoing {
  const { topic, id = crypto.randomUUID(), payload, ...rest } = message;
  if (topic === undefined && rest.type === undefined)
    throw new TypeError('a message needs a topic or a type');
  const json = JSON.stringify(payload);
  if (json === undefined) throw new TypeError(`the payload is not a JSON value: ${typeof payload}`);
  return {
    id,
    key: rest.key,
    path:
      topic === undefined ? '/v1/messages/batch' : `/v1/topics/${encodeURIComponent(topic)}/messages/batch`,
    text: `${JSON.stringify({ ...rest, id }).slice(0, -1)},"payload":${json}}`,
  };
}
