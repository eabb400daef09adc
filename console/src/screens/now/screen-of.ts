import type { AttentionSubject } from '../../api-types.ts';

/** A screen with its parameters. */
type Place = readonly [screen: string, query?: Readonly<Record<string, string | undefined>>];

const listener = (subject: AttentionSubject): Place =>
  subject.listener ? ['listener', { name: subject.listener }] : ['messages', { status: 'pending' }];
const group = (subject: AttentionSubject): Place => ['group', { name: subject.group }];
const activity = (): Place => ['activity'];
const system = (): Place => ['system'];

/** The screen that shows what an item of each kind is about. */
export const SCREEN_OF_KIND: Readonly<Record<string, (subject: AttentionSubject) => Place>> = {
  'role-missing': system,
  'inconsistent-rows': () => ['guide', { chapter: 'inconsistent-rows' }],
  'history-failed': system,
  'source-failing': () => ['guide', { chapter: 'a-source-fails' }],
  'messages-refused': () => ['guide', { chapter: 'a-source-fails' }],
  'offsets-expired': group,
  'listener-disabled': listener,
  'circuit-open': listener,
  'expiring-soon': () => ['messages', { status: 'pending' }],
  'backlog-old': listener,
  'queue-not-consumed': listener,
  'partition-unowned': group,
  'dead-letters': ({ stage, listener, group, fingerprint }) => [
    'dead-letters',
    { stage, listener, group, error: fingerprint },
  ],
  'consumer-lag': group,
  'rebuild-stopped': ({ readModel }) => ['read-model', { name: readModel }],
  'schema-kept': ({ readModel }) => ['read-model', { name: readModel }],
  'stalled-revive': activity,
  'stalled-replay': activity,
  // Nothing knows a producer but its messages.
  'producer-gap': ({ source }) => ['messages', { source }],
  'hold-without-end': ({ key }) => ['key', { key }],
};

/** A kind that only a newer service knows has its chapter. */
export function screenOf(kind: string, subject: AttentionSubject, guide: string): Place {
  return SCREEN_OF_KIND[kind]?.(subject) ?? ['guide', { chapter: guide }];
}
