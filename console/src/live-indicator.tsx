import { duration } from './format.ts';
import { type Liveness, liveness, outage, paused, silentMs, snapshot } from './live.ts';
import { refresh } from './load.ts';

const TITLES: Readonly<Record<Liveness, string>> = {
  connecting: 'Waiting for the first snapshot of the service.',
  live: 'Numbers are updated every second. Click to pause.',
  paused: 'Nothing is updated. Click to continue.',
  lost: 'Numbers are old: nothing comes from the service. It is tried again by itself.',
};

/** Whether what is shown is true now. */
export function LiveIndicator() {
  const state = liveness.value;
  const toggle = () => {
    paused.value = !paused.value;
    if (!paused.value) refresh();
  };
  return (
    <button
      type="button"
      class={`liveness ${state}`}
      aria-pressed={paused.value}
      title={outage.value ?? TITLES[state]}
      onClick={toggle}
    >
      <span class="dot" aria-hidden="true" />
      <span>{textOf(state)}</span>
    </button>
  );
}

function textOf(state: Liveness): string {
  if (state === 'connecting') return 'connecting…';
  if (state !== 'lost' || snapshot.value === undefined) return state;
  return `lost ${duration(Math.round((silentMs.value ?? 0) / 1_000))} ago`;
}
