import type { ComponentChildren } from 'preact';
import { refine } from '../router.ts';

export function Filters({ isInside = false, children }: { isInside?: boolean; children: ComponentChildren }) {
  return (
    <search class={isInside ? 'filters inside' : 'filters'} aria-label="Filters">
      {children}
    </search>
  );
}

interface FilterProps {
  readonly name: string;
  readonly label: string;
  readonly value: string | undefined;
}

/** A filter of a list; it lives in the URL, so that a link shows the same. Takes effect with Enter or when it is left. */
export function TextFilter({ name, label, value, hint }: FilterProps & { hint?: string }) {
  return (
    <label class="filter">
      <span>{label}</span>
      <input
        name={name}
        type="text"
        placeholder={hint}
        value={value ?? ''}
        onChange={(event) => refine({ [name]: event.currentTarget.value.trim() || undefined })}
      />
    </label>
  );
}

/** In the zone of the browser; the URL has UTC. */
export function TimeFilter({ name, label, value }: FilterProps) {
  return (
    <label class="filter">
      <span>{label}</span>
      <input
        name={name}
        type="datetime-local"
        value={value ? localInput(new Date(value)) : ''}
        onChange={(event) => {
          const text = event.currentTarget.value;
          refine({ [name]: text ? new Date(text).toISOString() : undefined });
        }}
      />
    </label>
  );
}

export function ChoiceFilter({
  name,
  label,
  value,
  choices,
  all = 'all',
}: FilterProps & { choices: readonly string[]; all?: string }) {
  return (
    <label class="filter">
      <span>{label}</span>
      <select
        name={name}
        value={value ?? ''}
        onChange={(event) => refine({ [name]: event.currentTarget.value || undefined })}
      >
        <option value="">{all}</option>
        {choices.map((choice) => (
          <option key={choice} value={choice}>
            {choice}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Several of the choices, separated by commas in the URL. */
export function ChoicesFilter({ name, label, value, choices }: FilterProps & { choices: readonly string[] }) {
  const chosen = value?.split(',') ?? [];
  const toggle = (choice: string) => {
    const next = choices.filter((one) => (one === choice) !== chosen.includes(one));
    refine({ [name]: next.join(',') || undefined });
  };
  return (
    <div class="filter choices">
      <span>{label}</span>
      <details>
        <summary title={chosen.join(', ')}>{chosen.join(', ') || 'all'}</summary>
        <fieldset aria-label={label}>
          {choices.map((choice) => (
            <label key={choice} class="check">
              <input
                type="checkbox"
                name={name}
                checked={chosen.includes(choice)}
                onChange={() => toggle(choice)}
              />
              <span>{choice}</span>
            </label>
          ))}
        </fieldset>
      </details>
    </div>
  );
}

/** A time as `datetime-local` wants it. */
export function localInput(date: Date): string {
  const local = new Date(date.getTime() - date.getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, 16);
}
