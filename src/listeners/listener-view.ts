import { type BrokerMode, isBrokerMode } from '../brokers/broker.ts';
import { effectiveDefinition, shownOrigin } from './effective-definition.ts';
import { type HealthRow, healthView } from './listener-health-view.ts';
import type { ListenerView } from './listeners.openapi.ts';
import type { ListenerRow } from './listeners-store.ts';
import type { OpenResult } from './secrets/confidential.ts';

const HIDDEN = '(hidden)';

/**
 * A listener as the API shows it, including defaults; never its secrets. Only admins see the values of its headers and the path
 * and query of its URL.
 */
export function listenerView(
  row: ListenerRow,
  opened: OpenResult,
  reader: { readonly isAdmin: boolean },
  health: HealthRow | undefined,
): ListenerView {
  const effective = effectiveDefinition(row.definition);
  const { mode, types, ordered, retrySchedule, onDead, rateLimit } = effective;
  return {
    name: row.name,
    mode,
    types,
    ...(mode === 'webhook' ? { url: urlOf(row, opened, reader) } : {}),
    ordered,
    retrySchedule,
    onDead,
    ...modeView(row, effective, opened, reader),
    lanes: row.lanes,
    rateLimit: rateLimit ?? null,
    ...stateOf(row, opened),
    health: healthView(health, rateLimit),
    origin: row.origin,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

type Effective = ReturnType<typeof effectiveDefinition>;
type Reader = Parameters<typeof listenerView>[2];

function urlOf({ definition }: ListenerRow, opened: OpenResult, { isAdmin }: Reader): string {
  const content = isAdmin && opened.kind === 'opened' ? opened.content : undefined;
  return content?.url ?? shownOrigin(definition);
}

function modeView(row: ListenerRow, effective: Effective, opened: OpenResult, reader: Reader) {
  const { mode } = effective;
  if (mode === 'pull') return pullView(effective);
  return isBrokerMode(mode) ? brokerView(row, effective, opened) : webhookView(effective, opened, reader);
}

/** Credentials are never shown: only which there are. */
function brokerView({ definition }: ListenerRow, { mode, timeout }: Effective, opened: OpenResult) {
  const credentials = opened.kind === 'opened' ? (opened.content.credentials ?? {}) : {};
  const hidden = Object.fromEntries(Object.keys(credentials).map((name) => [name, HIDDEN]));
  return { [mode]: definition[mode as BrokerMode], credentials: hidden, timeout };
}

function pullView({ lease, attempts, maxInFlight }: Effective) {
  return { lease, attempts, maxInFlight };
}

function webhookView(effective: Effective, opened: OpenResult, { isAdmin }: Reader) {
  const { timeout, terminalStatuses, format, disableAfter } = effective;
  const headers = opened.kind === 'opened' ? opened.content.headers : {};
  const hidden = () => Object.fromEntries(Object.keys(headers).map((name) => [name, HIDDEN]));
  return {
    timeout,
    terminalStatuses,
    format,
    disableAfter: disableAfter ?? null,
    headers: isAdmin ? headers : hidden(),
  };
}

function stateOf(
  row: ListenerRow,
  opened: OpenResult,
): Pick<ListenerView, `state${string}` & keyof ListenerView> {
  const { state, state_reason, state_since, state_by } = row;
  const known = { state, stateReason: state_reason, stateSince: state_since, stateBy: state_by };
  if (opened.kind === 'opened') return known;
  return { ...known, state: 'disabled', stateReason: `its secrets cannot be read: ${opened.reason}` };
}
