import { useEffect, useState } from 'preact/hooks';
import { type Failure, get, path, send } from '../../api.ts';
import type { ReplayJob } from '../../api-types.ts';
import { count, plural } from '../../format.ts';
import { useAction } from '../../parts/confirm.tsx';
import { Dialog, show } from '../../parts/dialog.tsx';
import { localInput } from '../../parts/fields.tsx';
import { Bar } from '../../parts/sparkline.tsx';
import { Failed } from '../../parts/states.tsx';
import { to } from '../../router.ts';

const POLL_MS = 1_000;
/** Counting starts when nothing was typed for this long. */
const PAUSE_MS = 300;

/** Sends old deliveries again; how many is counted while the time is chosen. */
export function askReplay(name: string): void {
  show(<Replay name={name} />);
}

function Replay({ name }: { name: string }) {
  const [since, setSince] = useState(localInput(new Date(Date.now() - 3_600_000)));
  const [type, setType] = useState('');
  const [onlyFailed, setOnlyFailed] = useState(false);
  const [job, setJob] = useState<string>();
  const body = since && {
    since: new Date(since).toISOString(),
    ...(type.trim() ? { types: [type.trim()] } : {}),
    ...(onlyFailed ? { onlyFailed } : {}),
  };
  const matched = useMatched(name, body || undefined);
  const { isBusy, failure, start } = useAction(async () =>
    setJob((await send<{ id: string }>('POST', path`v1/listeners/${name}/replay`, body)).id),
  );
  if (job !== undefined) return <Progress name={name} id={job} />;
  return (
    <Dialog
      title={`Replay to ${name}`}
      onSubmit={start}
      footer={
        <button type="submit" class="primary" disabled={isBusy || !body || !matched.count}>
          {isBusy ? 'Starting…' : 'Start the replay'}
        </button>
      }
    >
      <p>
        Deliveries are sent again in order per key, with the same webhook-id. New ones of a key wait behind
        them.
      </p>
      <label class="field">
        <span>Created since</span>
        <input
          name="since"
          type="datetime-local"
          required
          value={since}
          onInput={(event) => setSince(event.currentTarget.value)}
        />
      </label>
      <label class="field">
        <span>Type (empty: all; * stands for any characters)</span>
        <input name="type" value={type} onInput={(event) => setType(event.currentTarget.value)} />
      </label>
      <label class="check">
        <input
          type="checkbox"
          checked={onlyFailed}
          onChange={(event) => setOnlyFailed(event.currentTarget.checked)}
        />
        <span>Only dead letters</span>
      </label>
      <p role="status" class="matched">
        {matched.text}
      </p>
      {failure && <Failed failure={failure} />}
    </Dialog>
  );
}

/** A dry run of what is chosen. */
function useMatched(name: string, body: object | undefined): { text: string; count?: number } {
  const key = JSON.stringify(body);
  const [result, setResult] = useState<{ key: string; text: string; count?: number }>();
  useEffect(() => {
    if (!body) return;
    let isCurrent = true;
    const set = (text: string, matched?: number) =>
      isCurrent && setResult({ key, text, ...(matched === undefined ? {} : { count: matched }) });
    const timer = setTimeout(() => {
      send<{ matched: number; more?: boolean }>('POST', path`v1/listeners/${name}/replay`, {
        ...body,
        dryRun: true,
      }).then(
        ({ matched, more }) =>
          set(
            `${more ? 'More than ' : ''}${plural(matched, 'delivery', 'deliveries')} would be sent.`,
            matched,
          ),
        (failure: Failure) => set(failure.detail),
      );
    }, PAUSE_MS);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [key]);
  if (!body) return { text: 'Choose a time.' };
  return result?.key === key ? result : { text: 'Counting what would be sent…' };
}

function Progress({ name, id }: { name: string; id: string }) {
  const [job, setJob] = useState<ReplayJob>();
  const [failure, setFailure] = useState<Failure>();
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const again = () => {
      timer = setTimeout(() => void poll(), POLL_MS);
    };
    const poll = () =>
      get<ReplayJob>(path`v1/listeners/${name}/replays/${id}`).then(
        (next) => {
          setJob(next);
          setFailure(undefined);
          if (next.status === 'running') again();
        },
        (error: Failure) => {
          setFailure(error);
          again();
        },
      );
    void poll();
    return () => clearTimeout(timer);
  }, [id]);
  return (
    <Dialog title={`Replay to ${name}`}>
      {job ? <ReplayProgress of={job} /> : <p>Starting…</p>}
      {failure && <Failed failure={failure} />}
      <p class="muted">
        It goes on when this is closed. <a href={to('activity')}>All revives and replays</a>
      </p>
    </Dialog>
  );
}

export function ReplayProgress({
  of: { matched, sent, dead, waiting, selecting, status },
}: {
  of: ReplayJob;
}) {
  return (
    <div class="progress" role="status">
      <Bar value={sent + dead} max={matched} />
      <p>
        <strong>
          {count(sent)} of {count(matched)} sent
        </strong>
        {`, ${count(waiting)} waiting, ${count(dead)} dead`}
        {selecting && ' (still selecting)'}
        {status !== 'running' && ` · ${status}`}
      </p>
    </div>
  );
}
