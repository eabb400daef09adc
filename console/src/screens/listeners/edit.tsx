import { useState } from 'preact/hooks';
import { path, send } from '../../api.ts';
import type { Listener } from '../../api-types.ts';
import { refresh } from '../../load.ts';
import { useAction } from '../../parts/confirm.tsx';
import { close, Dialog, show } from '../../parts/dialog.tsx';
import { Failed } from '../../parts/states.tsx';
import { say } from '../../parts/toast.tsx';
import { go, to } from '../../router.ts';
import { definitionOf, FIELDS, type Field, isFor, textsOf } from './definition-form.ts';
import { NewSecret } from './new-secret.tsx';

export function askCreate(): void {
  show(<Edit />);
}

export function askEdit(listener: Listener): void {
  show(<Edit of={listener} />);
}

/** The service checks the whole definition; each fault stands at its field. */
function Edit({ of: listener }: { of?: Listener }) {
  const [name, setName] = useState(listener?.name ?? '');
  const [texts, setTexts] = useState(textsOf(listener));
  const { isBusy, failure, start } = useAction(async () => {
    const saved = await send<Listener & { secret?: string }>(
      'PUT',
      path`v1/listeners/${name}`,
      definitionOf(texts),
    );
    refresh();
    if (!listener) go(to('listener', { name }));
    if (saved.secret) return show(<NewSecret name={name} secret={saved.secret} />);
    close();
    say(`${name} is saved.`);
  });
  const mode = texts.mode || 'webhook';
  const shown = FIELDS.filter((field) => isFor(mode, field));
  const unplaced =
    failure && !failure.errors.some(({ pointer }) => shown.some((field) => isAt(pointer, field)));
  return (
    <Dialog
      title={listener ? `Edit ${listener.name}` : 'New listener'}
      onSubmit={start}
      footer={
        <button type="submit" class="primary" disabled={isBusy || name === ''}>
          {isBusy ? 'Saving…' : 'Save'}
        </button>
      }
    >
      {listener?.origin === 'file' && <p class="note">It comes from LISTENERS_FILE: change it there.</p>}
      <label class="field">
        <span>Name</span>
        <input
          name="name"
          value={name}
          readOnly={listener !== undefined}
          required
          onInput={(event) => setName(event.currentTarget.value)}
        />
      </label>
      {shown.map((field) => (
        <FieldInput
          key={field.name}
          field={field}
          value={texts[field.name] ?? ''}
          faults={
            failure?.errors.filter(({ pointer }) => isAt(pointer, field)).map(({ detail }) => detail) ?? []
          }
          isFixed={listener !== undefined && Boolean(field.isFixed)}
          onChange={(text) => setTexts({ ...texts, [field.name]: text })}
        />
      ))}
      {unplaced && <Failed failure={failure} />}
    </Dialog>
  );
}

function isAt(pointer: string, { name }: Field): boolean {
  return pointer === `/${name}` || pointer.startsWith(`/${name}/`);
}

function FieldInput({
  field: { name, label, kind, choices },
  value,
  faults,
  isFixed,
  onChange,
}: {
  field: Field;
  value: string;
  faults: readonly string[];
  isFixed: boolean;
  onChange: (text: string) => void;
}) {
  const shared = {
    name,
    value,
    'aria-invalid': faults.length > 0,
    onInput: (event: { currentTarget: { value: string } }) => onChange(event.currentTarget.value),
  };
  return (
    // biome-ignore lint/a11y/noLabelWithoutControl: one of the three is always there
    <label class="field">
      <span>{label}</span>
      {kind === 'choice' && (
        <select {...shared} disabled={isFixed}>
          {choices!.map((choice) => (
            <option key={choice} value={choice}>
              {choice}
            </option>
          ))}
        </select>
      )}
      {kind === 'lines' && <textarea {...shared} rows={3} readOnly={isFixed} />}
      {(kind === 'text' || kind === 'number' || kind === 'json') && <input {...shared} readOnly={isFixed} />}
      {faults.map((fault) => (
        <em key={fault} class="fault" role="alert">
          {fault}
        </em>
      ))}
    </label>
  );
}
