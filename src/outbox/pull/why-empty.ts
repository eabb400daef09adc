import type { Listener } from '../../listeners/listener.ts';
import type { HandOut } from './hand-out-store.ts';
import type { WaitsFor } from './pull.openapi.ts';

/** Why a pull returned nothing. */
export interface Empty {
  readonly waitsFor: WaitsFor;
  /** One sentence for a person. */
  readonly explanation: string;
}

type Found = Pick<HandOut, 'inFlight' | 'limited' | 'keysInFlight'>;

/** Pure. Undefined: nothing was scanned, because of the listener's state. */
export function emptyBecause(
  { name, state, maxInFlight, rateLimit }: Pick<Listener, 'name' | 'state' | 'maxInFlight' | 'rateLimit'>,
  found: Found | undefined,
): Empty {
  if (state !== 'active')
    return {
      waitsFor: `${state}-listener`,
      explanation: `The listener is ${state}; POST /v1/listeners/${name}/resume.`,
    };
  if (found && found.inFlight >= maxInFlight)
    return {
      waitsFor: 'in-flight',
      explanation: `Consumers have ${found.inFlight} messages, and maxInFlight is ${maxInFlight}.`,
    };
  if (found?.limited)
    return { waitsFor: 'rate', explanation: `The rate limit of ${rateLimit!.perSecond}/s is reached.` };
  if (found?.keysInFlight)
    return { waitsFor: 'keys', explanation: 'Each message that waits is behind one of its key in flight.' };
  return { waitsFor: 'messages', explanation: 'No message can be handed out now.' };
}
