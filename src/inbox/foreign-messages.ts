import type { Caller } from '../http/access.ts';
import { Problem } from '../http/problems.ts';
import { type NewMessage, sourceOfCaller } from './new-message.ts';
import type { PostedMessages } from './read-request.ts';

/**
 * Throws a 403 that lists every message of a source or key that the caller's api key is not bound to. Called before anything
 * else: a refused message uses up neither its sequence number nor its id.
 */
export function refuseForeign({ messages, batch, pointer }: PostedMessages, caller: Caller): void {
  if (caller.sources === undefined && caller.keys === undefined) return;
  const errors = messages.flatMap((message, index) =>
    foreignParts(message, caller).map((detail) => ({ pointer: batch ? `${pointer}/${index}` : '', detail })),
  );
  if (errors.length === 0) return;
  const rest = errors.length > 1 ? ` (and ${errors.length - 1} more)` : '';
  throw new Problem('foreign', `A message ${errors[0]!.detail}${rest}. ${boundTo(caller)}`, { errors });
}

/** A message without a key has its id as key everywhere (order, read models, listeners), so its id is checked. */
function foreignParts({ source, key, keyless }: NewMessage, caller: Caller): string[] {
  const parts: string[] = [];
  if (source !== sourceOfCaller(caller.name) && !beginsWithOne(source, caller.sources))
    parts.push('is of a source that this api key is not bound to');
  if (!beginsWithOne(key, caller.keys))
    parts.push(
      keyless
        ? 'has no key, so its id is its key, and this api key is not bound to that'
        : 'is of a key that this api key is not bound to',
    );
  return parts;
}

function beginsWithOne(text: string, prefixes: readonly string[] | undefined): boolean {
  return prefixes === undefined || prefixes.some((prefix) => text.startsWith(prefix));
}

function boundTo({ sources, keys }: Caller): string {
  const parts = [
    ...(sources ? [`sources that begin with ${quoted(sources)}`] : []),
    ...(keys ? [`keys that begin with ${quoted(keys)}`] : []),
  ];
  return `It is bound to ${parts.join(' and ')}.`;
}

function quoted(prefixes: readonly string[]): string {
  return prefixes.map((prefix) => `"${prefix}"`).join(' or ');
}
