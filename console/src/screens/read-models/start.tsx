import { useState } from 'preact/hooks';
import { path, send } from '../../api.ts';
import { refresh } from '../../load.ts';
import { useAction } from '../../parts/confirm.tsx';
import { close, Dialog } from '../../parts/dialog.tsx';
import { Failed } from '../../parts/states.tsx';
import { say } from '../../parts/toast.tsx';

interface Option {
  readonly name: 'dryRun' | 'recordFailures' | 'acceptFailures' | 'partial';
  readonly label: string;
}

const OPTIONS: readonly Option[] = [
  { name: 'dryRun', label: 'Compare only: wait for me before the switch' },
  { name: 'recordFailures', label: 'Leave out messages that fail, instead of stopping at the first' },
  { name: 'acceptFailures', label: 'Switch even if messages were left out' },
  { name: 'partial', label: 'Rebuild from what there is, if older messages were removed' },
];

/** Starts a rebuild; by default one that asks before its switch. */
export function StartRebuild({ name }: { name: string }) {
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set(['dryRun']));
  const { isBusy, failure, start } = useAction(async () => {
    const body = Object.fromEntries(offered(chosen).map((one) => [one.name, chosen.has(one.name)]));
    await send('POST', path`v1/read-models/${name}/rebuild`, body);
    close();
    say(`The rebuild of ${name} has started.`);
    refresh();
  });
  const toggle = (option: string) => {
    const next = new Set(chosen);
    if (!next.delete(option)) next.add(option);
    setChosen(next);
  };
  return (
    <Dialog
      title={`Rebuild ${name}`}
      onSubmit={start}
      footer={
        <button type="submit" class="primary" disabled={isBusy}>
          {isBusy ? 'Starting…' : 'Start the rebuild'}
        </button>
      }
    >
      <p>
        All messages are applied again to new tables beside the living ones. Readers see the living ones until
        the switch; nothing is sent to listeners again.
      </p>
      {offered(chosen).map((option) => (
        <label key={option.name} class="check">
          <input
            type="checkbox"
            name={option.name}
            checked={chosen.has(option.name)}
            onChange={() => toggle(option.name)}
          />
          <span>{option.label}</span>
        </label>
      ))}
      {failure && <Failed failure={failure} />}
    </Dialog>
  );
}

/** Only a rebuild that leaves messages out, and switches by itself, needs to know whether it may. */
function offered(chosen: ReadonlySet<string>): readonly Option[] {
  const decides = chosen.has('recordFailures') && !chosen.has('dryRun');
  return OPTIONS.filter(({ name }) => name !== 'acceptFailures' || decides);
}
