import { useEffect, useState } from 'preact/hooks';
import { type Failure, get, path, send } from '../../api.ts';
import type { DeadLetterFilter, RulingJob } from '../../api-types.ts';
import { count, plural } from '../../format.ts';
import { refresh } from '../../load.ts';
import { ReasonField, useAction } from '../../parts/confirm.tsx';
import { Dialog, focusFirstField, show } from '../../parts/dialog.tsx';
import { Bar } from '../../parts/sparkline.tsx';
import { Failed } from '../../parts/states.tsx';
import { to } from '../../router.ts';

type Kind = 'revive' | 'discard';

/** Above this many the number has to be typed: nobody discards ten thousand by a slip. */
const TYPED_ABOVE = 100;
const POLL_MS = 1_000;

/** Revives or discards everything a filter matches: count, reason, confirmation, progress. */
export function askBulk(kind: Kind, filter: DeadLetterFilter): void {
  show(<Bulk kind={kind} filter={filter} />);
}

const TEXTS = {
  revive: {
    title: 'Revive dead letters',
    verb: 'Revive',
    effect: 'They run again, in order per key, with a new set of attempts.',
  },
  discard: {
    title: 'Discard dead letters',
    verb: 'Discard',
    effect: 'They end for good and stay on record; messages behind them continue.',
  },
} as const;

function Bulk({ kind, filter }: { kind: Kind; filter: DeadLetterFilter }) {
  const [matched, setMatched] = useState<number>();
  const [job, setJob] = useState<string>();
  const [countFailure, setCountFailure] = useState<Failure>();
  useEffect(() => {
    send<{ matched: number }>('POST', `v1/dead-letters/${kind}`, { filter, dryRun: true }).then(
      (result) => setMatched(result.matched),
      setCountFailure,
    );
  }, []);
  const { title } = TEXTS[kind];
  if (job !== undefined) return <Progress title={title} id={job} />;
  if (countFailure)
    return (
      <Dialog title={title}>
        <Failed failure={countFailure} />
      </Dialog>
    );
  if (matched === undefined)
    return (
      <Dialog title={title}>
        <p>Counting what matches…</p>
      </Dialog>
    );
  return <Decide kind={kind} filter={filter} matched={matched} onStarted={setJob} />;
}

function Decide({
  kind,
  filter,
  matched,
  onStarted,
}: {
  kind: Kind;
  filter: DeadLetterFilter;
  matched: number;
  onStarted: (id: string) => void;
}) {
  const [reason, setReason] = useState('');
  const [typed, setTyped] = useState('');
  useEffect(focusFirstField, []);
  const { isBusy, failure, start } = useAction(async () => {
    const body = { filter, ...(reason.trim() ? { reason: reason.trim() } : {}) };
    onStarted((await send<{ id: string }>('POST', `v1/dead-letters/${kind}`, body)).id);
  });
  const isUntyped = matched > TYPED_ABOVE && typed.replaceAll(/[,.\s]/g, '') !== String(matched);
  const isReasonless = kind === 'discard' && reason.trim() === '';
  const { title, verb, effect } = TEXTS[kind];
  return (
    <Dialog
      title={title}
      onSubmit={start}
      footer={
        <button
          type="submit"
          class={kind === 'discard' ? 'danger' : 'primary'}
          disabled={isBusy || isUntyped || isReasonless || matched === 0}
        >
          {isBusy ? 'Starting…' : `${verb} ${count(matched)}`}
        </button>
      }
    >
      <p>
        <strong>{plural(matched, 'dead letter')}</strong> {matched === 1 ? 'matches' : 'match'}. {effect}
      </p>
      <FilterText of={filter} />
      <ReasonField value={reason} onChange={setReason} isRequired={kind === 'discard'} />
      {matched > TYPED_ABOVE && (
        <label class="field">
          <span>Type {count(matched)} to confirm</span>
          <input
            name="typed"
            inputMode="numeric"
            autocomplete="off"
            value={typed}
            onInput={(event) => setTyped(event.currentTarget.value)}
          />
        </label>
      )}
      {failure && <Failed failure={failure} />}
    </Dialog>
  );
}

export function FilterText({ of }: { of: DeadLetterFilter }) {
  const given = Object.entries(of).filter(([, value]) => value !== undefined && value !== null);
  return (
    <p class="filter-text">
      {given.length === 0
        ? 'All of them.'
        : given.map(([name, value]) => (
            <span key={name}>
              {name === 'error' ? 'similar error' : name} <bdi>{String(value)}</bdi>
            </span>
          ))}
    </p>
  );
}

function Progress({ title, id }: { title: string; id: string }) {
  const [job, setJob] = useState<RulingJob>();
  const [failure, setFailure] = useState<Failure>();
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const poll = () =>
      get<RulingJob>(path`v1/dead-letters/rulings/${id}`).then(
        (next) => {
          setJob(next);
          setFailure(undefined);
          if (next.status === 'running') timer = setTimeout(() => void poll(), POLL_MS);
          else refresh();
        },
        (error: Failure) => {
          setFailure(error);
          timer = setTimeout(() => void poll(), POLL_MS);
        },
      );
    void poll();
    return () => clearTimeout(timer);
  }, [id]);
  return (
    <Dialog title={title}>
      {job ? <RulingProgress of={job} /> : <p>Starting…</p>}
      {failure && <Failed failure={failure} />}
      <p class="muted">
        It goes on when this is closed. <a href={to('activity')}>All revives and replays</a>
      </p>
    </Dialog>
  );
}

/** How far a revive or discard is. */
export function RulingProgress({ of: job }: { of: RulingJob }) {
  const { kind, status, matched, done, skipped, waiting, ended, dead } = job;
  const word = kind === 'revive' ? 'revived' : 'discarded';
  return (
    <div class="progress" role="status">
      <Bar value={done + skipped} max={matched} />
      <p>
        <strong>
          {count(done)} of {count(matched)} {word}
        </strong>
        {skipped > 0 && `, ${count(skipped)} were no longer dead`}
        {kind === 'revive' &&
          `: ${count(ended ?? 0)} processed, ${count(waiting ?? 0)} waiting, ${count(dead ?? 0)} dead again`}
        {status !== 'running' && ` · ${status}`}
      </p>
    </div>
  );
}
