import { useState } from 'preact/hooks';
import { path, send } from '../../api.ts';
import { refresh } from '../../load.ts';
import { ask, ReasonField, useAction } from '../../parts/confirm.tsx';
import { close, Dialog, show } from '../../parts/dialog.tsx';
import { Failed } from '../../parts/states.tsx';
import { say } from '../../parts/toast.tsx';

/** Holds a key; without one given, it is asked for. */
export function askHold(key?: string): void {
  show(<HoldDialog given={key} />);
}

function HoldDialog({ given }: { given: string | undefined }) {
  const [key, setKey] = useState(given ?? '');
  const [reason, setReason] = useState('');
  const [until, setUntil] = useState('');
  const { isBusy, failure, start } = useAction(async () => {
    const end = until ? { until: new Date(until).toISOString() } : {};
    await send('PUT', path`v1/keys/${key}/hold`, { reason: reason.trim(), ...end });
    close();
    say(`The key ${key} is held.`);
    refresh();
  });
  return (
    <Dialog
      title="Hold a key"
      onSubmit={start}
      footer={
        <button type="submit" class="primary" disabled={isBusy || !key || !reason.trim()}>
          {isBusy ? 'Working…' : 'Hold'}
        </button>
      }
    >
      <p>Messages of this key wait; all others continue.</p>
      <label class="field">
        <span>Key</span>
        <input
          name="key"
          required
          value={key}
          readOnly={given !== undefined}
          onInput={(event) => setKey(event.currentTarget.value)}
        />
      </label>
      <ReasonField value={reason} onChange={setReason} isRequired />
      <label class="field">
        <span>Until (empty: until somebody ends it)</span>
        <input
          name="until"
          type="datetime-local"
          value={until}
          onInput={(event) => setUntil(event.currentTarget.value)}
        />
      </label>
      {failure && <Failed failure={failure} />}
    </Dialog>
  );
}

export function askEndHold(key: string): void {
  ask({
    title: 'End a hold',
    children: (
      <>
        Messages of the key <bdi>{key}</bdi> continue in order.
      </>
    ),
    confirm: 'End the hold',
    done: 'The hold is ended.',
    run: () => send('DELETE', path`v1/keys/${key}/hold`),
  });
}
