import { signal } from '@preact/signals';
import { type Failure, get, send, whenUnauthenticated } from './api.ts';
import type { Session } from './api-types.ts';

type State =
  | { readonly kind: 'unknown' }
  | { readonly kind: 'signed-out' }
  | { readonly kind: 'unreachable'; readonly failure: Failure }
  | { readonly kind: 'signed-in'; readonly session: Session };

export const session = signal<State>({ kind: 'unknown' });

/**
 * Asks the service who we are; the cookie says it. While it does not respond, who was signed in stays so: the screen, with what
 * was typed in it, must not go away.
 */
export async function readSession(): Promise<void> {
  try {
    session.value = { kind: 'signed-in', session: await get<Session>('v1/session') };
  } catch (error) {
    const failure = error as Failure;
    if (failure.status === 401) session.value = { kind: 'signed-out' };
    else if (session.value.kind !== 'signed-in') session.value = { kind: 'unreachable', failure };
  }
}

export async function signIn(key: string): Promise<void> {
  session.value = { kind: 'signed-in', session: await send<Session>('POST', 'v1/session', { key }) };
}

export async function signOut(): Promise<void> {
  await send('DELETE', 'v1/session').catch(() => undefined);
  signedOut();
}

whenUnauthenticated(signedOut);

function signedOut(): void {
  if (session.value.kind === 'signed-in') session.value = { kind: 'signed-out' };
}

/** Whether buttons are shown. The service decides; this only spares a reader what it would refuse. */
export function mayAct(): boolean {
  const state = session.value;
  return state.kind === 'signed-in' && (state.session.open || state.session.scopes.includes('admin'));
}
