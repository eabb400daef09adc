import type { Activity } from '../../api-types.ts';
import { liveness, outage, snapshot } from '../../live.ts';
import { useGet } from '../../load.ts';
import { AsOf } from '../../parts/as-of.tsx';
import { Heading } from '../../parts/heading.tsx';
import { AttentionList } from './attention.tsx';
import { Flow } from './flow.tsx';

const STEP_SECONDS = 30;

/** What needs a person, and the life of a message as a picture. */
export function Now() {
  const activity = useGet<Activity>('v1/activity', { range: '15m', step: `${STEP_SECONDS}s` }, STEP_SECONDS);
  const current = snapshot.value;
  return (
    <>
      <Heading title="Now" lead="What needs you, and where messages are." />
      {current ? (
        <>
          <AttentionList items={current.attention.items} />
          <AsOf of={activity} />
          <Flow backlog={current.backlog} rates={current.rates} activity={activity.data} />
        </>
      ) : (
        <Waiting />
      )}
    </>
  );
}

/** Before the first snapshot. */
function Waiting() {
  if (liveness.value !== 'lost') return <p class="loading">Waiting for the first snapshot of the service…</p>;
  return (
    <div class="failed" role="alert">
      <p>
        <strong>No numbers yet.</strong> {outage.value ?? 'Nothing comes from the service.'} It is tried again
        by itself.
      </p>
    </div>
  );
}
