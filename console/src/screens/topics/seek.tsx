import { useEffect, useState } from 'preact/hooks';
import { Failure, path, send } from '../../api.ts';
import type { Group, SeekResult } from '../../api-types.ts';
import { count, plural } from '../../format.ts';
import { refresh } from '../../load.ts';
import { useAction } from '../../parts/confirm.tsx';
import { close, Dialog, show } from '../../parts/dialog.tsx';
import { Failed } from '../../parts/states.tsx';
import { Table } from '../../parts/table.tsx';
import { say } from '../../parts/toast.tsx';

/** Counting starts when nothing was typed for this long. */
const PAUSE_MS = 300;
type Target = 'earliest' | 'latest' | 'time' | 'offset';

/** Moves a group; what would change is shown before. */
export function askSeek(group: Group): void {
  show(<Seek of={group} />);
}

function Seek({ of: { name, members } }: { of: Group }) {
  const [target, setTarget] = useState<Target>('earliest');
  const [value, setValue] = useState('');
  const to = bodyOf(target, value);
  const plan = usePlan(name, to);
  const isPlanned = plan !== undefined && !(plan instanceof Failure);
  const alive = members.filter((member) => member.alive).length;
  const { isBusy, failure, start } = useAction(async () => {
    const { again, skipped } = await send<SeekResult>('POST', path`v1/groups/${name}/seek`, { to });
    close();
    say(`${name} reads ${plural(again, 'message')} again and skips ${count(skipped)}.`);
    refresh();
  });
  return (
    <Dialog
      title={`Seek ${name}`}
      onSubmit={start}
      footer={
        <button type="submit" class="primary" disabled={isBusy || !isPlanned || alive > 0}>
          {isBusy ? 'Working…' : 'Seek'}
        </button>
      }
    >
      {alive > 0 && (
        <p class="note">
          {plural(alive, 'member')} {alive === 1 ? 'is' : 'are'} alive and would undo it with the next commit:
          stop them first. What would change is shown anyway.
        </p>
      )}
      <label class="field">
        <span>To</span>
        <select name="to" value={target} onChange={(event) => setTarget(event.currentTarget.value as Target)}>
          <option value="earliest">the first message that is kept</option>
          <option value="latest">the end: skip everything</option>
          <option value="time">a time</option>
          <option value="offset">an offset, in every partition</option>
        </select>
      </label>
      {(target === 'time' || target === 'offset') && (
        <label class="field">
          <span>{target === 'time' ? 'Time' : 'Next offset to read'}</span>
          <input
            name="value"
            type={target === 'time' ? 'datetime-local' : 'number'}
            min={0}
            value={value}
            onInput={(event) => setValue(event.currentTarget.value)}
          />
        </label>
      )}
      <Plan of={plan} />
      {failure && <Failed failure={failure} />}
    </Dialog>
  );
}

function bodyOf(target: Target, value: string): unknown {
  if (target === 'earliest' || target === 'latest') return target;
  if (value === '') return undefined;
  return target === 'time' ? { time: new Date(value).toISOString() } : { offset: Number(value) };
}

function usePlan(name: string, to: unknown): SeekResult | Failure | undefined {
  const key = JSON.stringify(to);
  const [plan, setPlan] = useState<{ key: string; result: SeekResult | Failure }>();
  useEffect(() => {
    if (to === undefined) return;
    let isCurrent = true;
    const set = (result: SeekResult | Failure) => isCurrent && setPlan({ key, result });
    const timer = setTimeout(() => {
      send<SeekResult>('POST', path`v1/groups/${name}/seek`, { to, dryRun: true }).then(set, set);
    }, PAUSE_MS);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [key]);
  return plan?.key === key ? plan.result : undefined;
}

function Plan({ of: plan }: { of: SeekResult | Failure | undefined }) {
  if (plan === undefined) return <p role="status">Finding out what would change…</p>;
  if (plan instanceof Failure) return <Failed failure={plan} />;
  return (
    <>
      <p role="status">
        <strong>{plural(plan.again, 'message')}</strong> would be read again,{' '}
        <strong>{count(plan.skipped)}</strong> skipped.
      </p>
      <Table
        label="What would change"
        columns={[
          { head: 'Partition', cell: ({ topic, partition }) => `${topic} ${partition}` },
          { head: 'From', cell: ({ from }) => count(from), isNumber: true },
          { head: 'To', cell: (row) => count(row.to), isNumber: true },
        ]}
        rows={plan.partitions}
        rowKey={({ topic, partition }) => `${topic} ${partition}`}
      />
    </>
  );
}
