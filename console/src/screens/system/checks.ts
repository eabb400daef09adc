import type { Replica, Setting } from '../../api-types.ts';
import { plural } from '../../format.ts';
import { liveness, outage } from '../../live.ts';
import { session } from '../../session.ts';

export interface Check {
  readonly what: string;
  readonly result: 'good' | 'warn' | 'bad';
  readonly detail: string;
}

const ROLES = ['api', 'inbox', 'outbox', 'upkeep'];

/** What can be told from here of what `sluice doctor` checks: what is unknown is left out. */
export function checksOf(
  replicas: readonly Replica[] | undefined,
  settings: readonly Setting[] | undefined,
): Check[] {
  const alive = replicas?.filter((replica) => replica.alive);
  return [
    database(),
    ...(alive ? [roles(alive), versions(alive)] : []),
    access(),
    ...(settings ? [secrets(settings)] : []),
  ];
}

function database(): Check {
  const what = 'Database';
  if (outage.value) return { what, result: 'bad', detail: outage.value };
  return liveness.value === 'live'
    ? { what, result: 'good', detail: 'It responds every second.' }
    : { what, result: 'warn', detail: 'Unknown while nothing comes from the service.' };
}

function roles(alive: readonly Replica[]): Check {
  const what = 'Roles';
  const missing = ROLES.filter((role) => !alive.some((replica) => replica.roles.includes(role)));
  return missing.length === 0
    ? { what, result: 'good', detail: `Each is run by one of ${plural(alive.length, 'live replica')}.` }
    : {
        what,
        result: 'bad',
        detail: `No live replica runs ${missing.join(', ')}. Start one, or check ROLES.`,
      };
}

function versions(alive: readonly Replica[]): Check {
  const what = 'Versions';
  const found = [...new Set(alive.map(({ version }) => version))];
  return found.length < 2
    ? { what, result: 'good', detail: `All replicas run ${found[0] ?? 'none'}.` }
    : { what, result: 'warn', detail: `${found.join(' and ')} run side by side; finish the rollout.` };
}

function access(): Check {
  const what = 'Access';
  const state = session.value;
  const isOpen = state.kind === 'signed-in' && state.session.open;
  return isOpen
    ? {
        what,
        result: 'warn',
        detail: 'No API keys: whoever reaches this port may do everything. It listens on loopback only.',
      }
    : { what, result: 'good', detail: 'Every request needs an API key or a session.' };
}

function secrets(settings: readonly Setting[]): Check {
  const what = 'Secrets';
  const isSet = settings.find(({ name }) => name === 'SECRETS_KEYS')?.isSet;
  return isSet
    ? {
        what,
        result: 'good',
        detail: 'SECRETS_KEYS is set: secrets of listeners and sessions hold on every replica.',
      }
    : {
        what,
        result: 'warn',
        detail: 'SECRETS_KEYS is not set. Set the same on all replicas before there are two of them.',
      };
}
