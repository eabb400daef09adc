import { effectiveDefinition, shownOrigin } from './effective-definition.ts';
import type { ListenerRow } from './listeners-store.ts';
import type { Opened } from './secrets/confidential.ts';

const HIDDEN = '(hidden)';

/**
 * A listener as the API shows it, including defaults; never its secrets. Only admins see the values of its headers and the path
 * and query of its URL.
 */
export function listenerView(row: ListenerRow, opened: Opened, reader: { readonly isAdmin: boolean }) {
  const { rateLimit, disableAfter, mode, types, ...definition } = effectiveDefinition(row.definition);
  const content = opened.kind === 'opened' ? opened.content : undefined;
  const headers = content?.headers ?? {};
  return {
    name: row.name,
    mode,
    types,
    url: (reader.isAdmin ? content?.url : undefined) ?? shownOrigin(row.definition),
    ...definition,
    lanes: row.lanes,
    rateLimit: rateLimit ?? null,
    disableAfter: disableAfter ?? null,
    headers: reader.isAdmin
      ? headers
      : Object.fromEntries(Object.keys(headers).map((name) => [name, HIDDEN])),
    ...stateOf(row, opened),
    origin: row.origin,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

function stateOf(row: ListenerRow, opened: Opened) {
  const { state, state_reason, state_since, state_by } = row;
  const known = { state, stateReason: state_reason, stateSince: state_since, stateBy: state_by };
  if (opened.kind === 'opened') return known;
  return { ...known, state: 'disabled', stateReason: `its secrets cannot be read: ${opened.reason}` };
}
