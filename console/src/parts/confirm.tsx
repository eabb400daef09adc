import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import type { Failure } from '../api.ts';
import { refresh } from '../load.ts';
import { mayAct } from '../session.ts';
import { close, Dialog, show } from './dialog.tsx';
import { Failed } from './states.tsx';
import { say } from './toast.tsx';

export interface Confirmation {
  readonly title: string;
  /** What will happen, in a sentence. */
  readonly children: ComponentChildren;
  readonly confirm: string;
  readonly isDangerous?: boolean;
  readonly reason?: 'optional' | 'required';
  readonly done: string;
  readonly run: (reason: string | undefined) => Promise<unknown>;
}

/** Asks before something is done, and shows why it could not be done. */
export function ask(confirmation: Confirmation): void {
  show(<Confirm {...confirmation} />);
}

function Confirm({ title, children, confirm, isDangerous, reason, done, run }: Confirmation) {
  const [text, setText] = useState('');
  const { isBusy, failure, start } = useAction(async () => {
    await run(text.trim() || undefined);
    close();
    say(done);
    refresh();
  });
  const isIncomplete = reason === 'required' && text.trim() === '';
  return (
    <Dialog
      title={title}
      onSubmit={start}
      footer={
        <button type="submit" class={isDangerous ? 'danger' : 'primary'} disabled={isBusy || isIncomplete}>
          {isBusy ? 'Working…' : confirm}
        </button>
      }
    >
      <p>{children}</p>
      {reason && <ReasonField value={text} onChange={setText} isRequired={reason === 'required'} />}
      {failure && <Failed failure={failure} />}
    </Dialog>
  );
}

export function ReasonField({
  value,
  onChange,
  isRequired,
}: {
  value: string;
  onChange: (text: string) => void;
  isRequired: boolean;
}) {
  return (
    <label class="field">
      <span>Reason {isRequired ? '' : '(optional)'}</span>
      <input
        name="reason"
        maxLength={500}
        required={isRequired}
        value={value}
        placeholder="Kept in the audit log"
        onInput={(event) => onChange(event.currentTarget.value)}
      />
    </label>
  );
}

/** Something that is done once at a time, with its failure. */
export function useAction(run: () => Promise<void>) {
  const [isBusy, setBusy] = useState(false);
  const [failure, setFailure] = useState<Failure>();
  const start = () => {
    setBusy(true);
    setFailure(undefined);
    run()
      .catch((error: Failure) => setFailure(error))
      .finally(() => setBusy(false));
  };
  return { isBusy, failure, start };
}

/** A button that only those see who may do it. The service checks it again. */
export function Act({
  label,
  onClick,
  kind = '',
  title,
  disabled = false,
}: {
  label: string;
  onClick: () => void;
  kind?: 'primary' | 'danger' | '';
  title?: string;
  disabled?: boolean;
}) {
  if (!mayAct()) return null;
  return (
    <button type="button" data-act class={kind} title={title} disabled={disabled} onClick={onClick}>
      {label}
    </button>
  );
}
