import { computed, effect, signal } from '@preact/signals';
import { urlOf } from './api.ts';
import type { Snapshot } from './api-types.ts';
import { now, serviceTime } from './clock.ts';
import { readSession, session } from './session.ts';
import { Stream } from './stream.ts';

/** Snapshots come every second: without one for this long, what is shown is old. */
const LOST_AFTER_MS = 4_000;

export const snapshot = signal<Snapshot | undefined>(undefined);
/** By this browser's clock. */
const receivedAt = signal<number | undefined>(undefined);
/** When the first stream was asked for. */
const startedAt = signal<number | undefined>(undefined);
/** Why the service cannot say anything new, by its own words. */
export const outage = signal<string | undefined>(undefined);
/** Set by the operator; nothing moves until it is unset. */
export const paused = signal(false);
const hidden = signal(document.hidden);
document.addEventListener('visibilitychange', () => {
  hidden.value = document.hidden;
});

export type Liveness = 'connecting' | 'live' | 'paused' | 'lost';

export const liveness = computed<Liveness>(() => {
  if (paused.value) return 'paused';
  if (outage.value !== undefined || (silentMs.value ?? 0) > LOST_AFTER_MS) return 'lost';
  return snapshot.value === undefined ? 'connecting' : 'live';
});

/** Since the last snapshot; before the first one, since it was asked for. */
export const silentMs = computed(() => {
  const at = receivedAt.value ?? startedAt.value;
  // Read for its tick alone: the clock of the service says nothing about this connection.
  void now.value;
  return at === undefined ? undefined : Math.max(0, Date.now() - at);
});

/** Numbers that may be old are shown greyed. */
export const isStale = computed(() => liveness.value === 'lost' || liveness.value === 'paused');

/** A new session of the same person is no reason to connect again. */
const isWanted = computed(() => session.value.kind === 'signed-in' && !paused.value && !hidden.value);

/** Keeps one stream open while somebody is signed in and looks at the page. */
export function followLive(): void {
  effect(() => {
    if (!isWanted.value) return;
    startedAt.value = startedAt.peek() ?? Date.now();
    // A refusal may mean that the session is over.
    const stream = new Stream(urlOf('v1/live'), { snapshot: take, outage: takeOutage, refused: readSession });
    return () => stream.close();
  });
}

function takeOutage(data: string): void {
  outage.value = (JSON.parse(data) as { detail: string }).detail;
}

function take(data: string): void {
  const next = JSON.parse(data) as Snapshot;
  serviceTime(next.at);
  outage.value = undefined;
  receivedAt.value = Date.now();
  snapshot.value = next;
}
