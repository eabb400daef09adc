import { count, duration, perSecond, plural } from '../../format.ts';
import { Bar } from '../../parts/sparkline.tsx';
import { Status, type Tone } from '../../parts/status.tsx';
import type { Rebuild, RebuildStatus } from './types.ts';

const TONES: Readonly<Record<RebuildStatus, Tone>> = {
  building: 'busy',
  replaying: 'busy',
  comparing: 'busy',
  ready: 'warn',
  switching: 'busy',
  switched: 'good',
  'rolled-back': 'warn',
  failed: 'bad',
  cancelled: 'quiet',
  dropped: 'quiet',
};

/** What a rebuild does in this state, and what an operator can do about it. */
const MEANINGS: Readonly<Record<RebuildStatus, string>> = {
  building: 'The tables are made in a schema beside the living one.',
  replaying: 'All messages are applied to the new tables, beside the living ones.',
  comparing: 'The new tables are compared with the living ones.',
  ready: 'The new tables are complete, compared, and kept current. Switch to them, or cancel.',
  switching: 'The last messages are applied, then the new tables become the living ones.',
  switched:
    'The new tables are the living ones. The previous ones are kept for a rollback, and finished messages with them: drop them when they are no longer needed.',
  'rolled-back': 'The previous tables are the living ones again. Switch to the new ones again, or drop them.',
  failed: 'It has stopped. The living tables are as they were.',
  cancelled: 'It was ended before its switch. The living tables are as they were.',
  dropped: 'It is over: the tables that were not in use are dropped.',
};

export function meaningOf({ status, paused }: Rebuild): string {
  return paused ? 'It was paused by an operator, and goes on when it is resumed.' : MEANINGS[status];
}

export function RebuildState({ of: { status, paused } }: { of: Rebuild }) {
  return paused ? <Status of="paused" /> : <Status of={status} tone={TONES[status]} />;
}

export function RebuildProgress({ of }: { of: Rebuild }) {
  const { total, done, leftOut, secondsLeft } = of;
  // Messages that came since the replay began are applied, too.
  const all = Math.max(total, done);
  return (
    <div class="progress" role="status">
      <Bar value={done} max={all} />
      <p>
        <strong>
          {count(done)} of {plural(all, 'message')}
        </strong>
        {of.perSecond !== undefined && `, ${perSecond(of.perSecond)}`}
        {secondsLeft !== undefined && secondsLeft > 0 && `, about ${duration(secondsLeft)} left`}
        {leftOut > 0 && `, ${count(leftOut)} left out`}
      </p>
    </div>
  );
}
