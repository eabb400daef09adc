import type { FedMessage } from '../brokers/feed.ts';
import type { SourceDefinition } from '../brokers/source-definition.ts';
import { Problem } from '../http/problems.ts';
import type { NewMessage } from '../inbox/new-message.ts';
import { readPost } from '../inbox/read-request.ts';

const CLOUD_EVENT = 'application/cloudevents+json';

/** What a message of a broker is in the inbox; a string says why it cannot be in it. */
export function readFed(
  fed: FedMessage,
  { name, type, source }: Pick<SourceDefinition, 'type' | 'source'> & { readonly name: string },
  maxBytes: number,
): NewMessage | string {
  if (fed.body.length > maxBytes) return `it has ${fed.body.length} bytes; BODY_LIMIT is ${maxBytes}`;
  const encoding = fed.headers['content-encoding'];
  if (encoding !== undefined) return `its body is encoded (${encoding})`;
  const isEvent =
    fed.headers['ce-specversion'] !== undefined || fed.headers['content-type']?.startsWith(CLOUD_EVENT);
  if (!isEvent && type === undefined) return 'it is no CloudEvent, and the source has no "type" for others';
  if (!isEvent && fed.id === undefined) return 'it has no message id, so a repeat would not be recognized';
  const headers = isEvent ? fed.headers : { ...fed.headers, ...attributesOf(fed, type!, source) };
  try {
    const posted = readPost({ headers, body: fed.body, caller: name, maxBytes, defaultType: undefined });
    return posted.messages[0]!;
  } catch (error) {
    if (error instanceof Problem && error.status < 500) return error.detail;
    throw error;
  }
}

/** Any other message becomes a CloudEvent: its body is the payload. Its address is the key, so that its order is kept. */
function attributesOf({ id, address }: FedMessage, type: string, source: string): Record<string, string> {
  const attributes = { specversion: '1.0', id: id!, type, source, partitionkey: address };
  return Object.fromEntries(
    Object.entries(attributes)
      .filter(([, value]) => value !== '')
      .map(([name, value]) => [`ce-${name}`, encodeURIComponent(value)]),
  );
}
