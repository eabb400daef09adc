import type { Role } from '../../config/settings.ts';
import type { Finding } from './attention-item.ts';
import type {
  DeadLettersRow,
  Findings,
  GapRow,
  HistoryFailureRow,
  HoldRow,
  JobRow,
  ListenerRow,
  SourceRow,
} from './attention-store.ts';

const ROLES: readonly (readonly [Role, consequence: string])[] = [
  ['inbox', 'messages are not processed'],
  ['outbox', 'nothing is delivered'],
  ['upkeep', 'schedules, retention, revives and replays are stalled'],
];

/** Pure: what in the findings of the tables needs an operator. */
export function findingsInTables({
  dead,
  listeners,
  holds,
  jobs,
  roles,
  gaps,
  history,
  sources,
}: Findings): Finding[] {
  return [
    ...ROLES.filter(([role]) => !roles.includes(role)).map(roleMissing),
    ...listeners.flatMap(ofListener),
    ...dead.map(deadLetters),
    ...jobs.map(stalled),
    ...gaps.map(gap),
    ...history.map(historyFailed),
    ...sources.flatMap(ofSource),
    ...holds.map(indefiniteHold),
  ];
}

function roleMissing([role, consequence]: readonly [string, string]): Finding {
  return {
    kind: 'role-missing',
    sentence: `No replica runs the role ${role}: ${consequence}.`,
    nextStep: `Start a replica whose ROLES include ${role}.`,
    subject: { stage: role },
  };
}

function ofListener(row: ListenerRow): Finding[] {
  const { name } = row;
  const path = `/v1/listeners/${encodeURIComponent(name)}`;
  const subject = { listener: name };
  if (row.state === 'disabled')
    return [
      {
        kind: 'listener-disabled',
        sentence: `The listener ${name} is disabled${row.stateReason ? `: ${row.stateReason}` : ''}.`,
        nextStep: 'Correct the endpoint, then resume the listener.',
        subject,
        since: row.stateSince,
        action: { label: 'Resume', method: 'POST', path: `${path}/resume` },
      },
    ];
  return [
    {
      kind: 'circuit-open',
      sentence: `The circuit of the listener ${name} is open: ${row.reason?.replace(/^circuit open: /, '')}.`,
      nextStep: 'See what its endpoint responds. It is tried again by itself.',
      subject,
      since: row.openSince,
      action: { label: 'Test', method: 'POST', path: `${path}/test` },
    },
  ];
}

function deadLetters({ stage, listener, group, fingerprint, count, since, capped }: DeadLettersRow): Finding {
  const where = {
    stage,
    ...(listener === null ? {} : { listener }),
    ...(group === null ? {} : { group }),
  };
  const owner = listener ?? group;
  const of = owner === null ? 'in the inbox' : stage === 'group' ? `of the group ${group}` : `for ${owner}`;
  return {
    kind: 'dead-letters',
    sentence: `${capped ? 'At least ' : ''}${count} dead ${count === 1 ? 'letter' : 'letters'} ${of}: ${fingerprint}`,
    nextStep: 'Correct the cause, then revive them; or discard them.',
    subject: { ...where, fingerprint },
    since,
    count,
    action: {
      label: 'Revive',
      method: 'POST',
      path: '/v1/dead-letters/revive',
      body: { filter: { ...where, error: fingerprint } },
    },
  };
}

function stalled(row: JobRow): Finding {
  const { kind, id, what, listener, since } = row;
  if (kind === 'rebuild-stopped')
    return {
      kind,
      sentence: `The rebuild of the read model ${what} has stopped: a message failed, or its tables could not be made.`,
      nextStep: 'Leave the message out with a reason, or cancel the rebuild.',
      subject: { readModel: what },
      since,
      action: { label: 'Cancel', method: 'POST', path: `/v1/read-models/${what}/rebuild/cancel` },
    };
  if (kind === 'schema-kept') return schemaKept(row);
  const path =
    listener === null
      ? `/v1/dead-letters/rulings/${id}/cancel`
      : `/v1/listeners/${encodeURIComponent(listener)}/replays/${id}/cancel`;
  return {
    kind,
    sentence: `The ${what} ${id}${listener === null ? '' : ` of ${listener}`} makes no progress.`,
    nextStep: 'See what it waits for: a listener that is down or paused, or a replica with the role upkeep.',
    subject: listener === null ? { action: String(id) } : { listener, replay: String(id) },
    since,
    action: { label: 'Cancel', method: 'POST', path },
  };
}

function schemaKept({ kind, what, since }: JobRow): Finding {
  return {
    kind,
    sentence: `The read model ${what} was switched, and its other schema is still kept; finished messages are kept with it.`,
    nextStep: 'Drop that schema when a rollback is not needed any more.',
    subject: { readModel: what },
    since,
    action: { label: 'Drop', method: 'POST', path: `/v1/read-models/${what}/rebuild/drop` },
  };
}

function gap({ source, id, since, first, count }: GapRow): Finding {
  return {
    kind: 'producer-gap',
    sentence: `${count} numbers of the producer ${id} (${source}) are missing, from ${first} on.`,
    nextStep: 'Let the producer send them again, or see what it lost.',
    subject: { producer: id, source },
    since,
    count,
  };
}

function indefiniteHold({ key, reason, since }: HoldRow): Finding {
  return {
    kind: 'hold-without-end',
    sentence: `The key ${key} is held indefinitely: ${reason}.`,
    nextStep: 'End the hold when its messages may continue.',
    subject: { key },
    since,
    action: { label: 'End the hold', method: 'DELETE', path: `/v1/keys/${encodeURIComponent(key)}/hold` },
  };
}

function historyFailed({ work, since, error }: HistoryFailureRow): Finding {
  return {
    kind: 'history-failed',
    sentence: `${work === 'archive' ? 'Messages cannot be moved to history' : 'The upkeep of history fails'}: ${error}.`,
    nextStep:
      'Nothing is lost meanwhile. Correct the cause, often a full disk; it is tried again every minute.',
    subject: { history: work },
    since,
  };
}

const NOT_READ = {
  failing: 'cannot be read',
  full: 'waits',
  unread: 'is read by no replica',
} as const;

function ofSource({ name, state, error, since, count }: SourceRow): Finding[] {
  const subject = { source: name };
  const found: Finding[] = [];
  if (state === 'failing' || state === 'full' || state === 'unread')
    found.push({
      kind: 'source-failing',
      sentence: `The source ${name} ${NOT_READ[state]}${error && state !== 'unread' ? `: ${error}` : ''}.`,
      nextStep:
        state === 'unread'
          ? 'Start a replica with the role inbox whose LISTENERS_FILE has it, or delete the source.'
          : 'Nothing is lost: the broker keeps its messages. Correct the cause; it is tried again by itself.',
      subject,
      since,
    });
  if (count > 0)
    found.push({
      kind: 'messages-refused',
      sentence: `The source ${name} keeps ${count} ${count === 1 ? 'message' : 'messages'} that cannot be accepted.`,
      nextStep: 'See why, let the publisher send them again correctly, and discard these.',
      subject,
      count,
    });
  return found;
}
