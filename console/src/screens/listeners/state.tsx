import type { Listener } from '../../api-types.ts';
import { Status } from '../../parts/status.tsx';
import { Ago } from '../../parts/time.tsx';

/** Its state, or its circuit when that is what stops it; with the next try. */
export function ListenerState({
  of: { state, stateReason, health },
  isShort = false,
}: {
  of: Listener;
  /** Without the next try. */
  isShort?: boolean;
}) {
  if (state !== 'active')
    return (
      <span title={stateReason ?? undefined}>
        <Status of={state} />
      </span>
    );
  if (health?.circuit !== 'open') return <Status of="active" />;
  return (
    <span title={health.reason ?? undefined}>
      <Status of="circuit open" />{' '}
      {health.closedUntil && !isShort && (
        <span class="muted nowrap">
          next try <Ago at={health.closedUntil} />
        </span>
      )}
    </span>
  );
}
