import type { History, MessageRow } from '../history.ts';

/** Whether a message must be in what was created at that time, in the middle of a run; undefined: before the first post. */
export type RequiredIn = (message: MessageRow, sinceMs: number | undefined) => boolean;

/** Those that were posted later than the creation was confirmed, and accepted; and what such a message sends. */
export function requiredIn({ posted, messages }: Pick<History, 'posted' | 'messages'>): RequiredIn {
  const postedMs = new Map(
    posted.filter(({ outcome }) => outcome === 'accepted').map(({ id, postedMs }) => [id, postedMs]),
  );
  const parents = new Map(messages.map(({ id, payload }) => [id, payload?.parent]));
  const origin = (id: string): string => {
    const parent = parents.get(id);
    return parent === undefined ? id : origin(parent);
  };
  return ({ id }, sinceMs) => {
    if (sinceMs === undefined) return true;
    return (postedMs.get(origin(id)) ?? Number.NEGATIVE_INFINITY) > sinceMs;
  };
}
