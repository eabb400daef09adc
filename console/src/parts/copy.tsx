import type { Failure } from '../api.ts';
import { Dialog, show } from './dialog.tsx';
import { Failed } from './states.tsx';
import { say } from './toast.tsx';

/** The clipboard is only there over https or on localhost: elsewhere the text is shown to be copied by hand. */
export async function copy(text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    say(`Copied ${what}.`);
  } catch {
    show(
      <Dialog title={`Copy ${what}`}>
        <textarea class="code" readOnly rows={8} aria-label={what} value={text} />
      </Dialog>,
    );
  }
}

/** The same of a text that is fetched first, which may fail. */
export async function copyFetched(fetched: Promise<string>, what: string): Promise<void> {
  try {
    await copy(await fetched, what);
  } catch (failure) {
    show(
      <Dialog title={`Copy ${what}`}>
        <Failed failure={failure as Failure} />
      </Dialog>,
    );
  }
}

export function CopyButton({ text, what }: { text: string; what: string }) {
  return (
    <button
      type="button"
      class="copy"
      aria-label={`Copy ${what}`}
      title={`Copy ${what}`}
      onClick={() => void copy(text, what)}
    >
      <svg viewBox="0 0 16 16" aria-hidden="true">
        <rect x="5.5" y="5.5" width="8" height="8" rx="1.5" />
        <path d="M10.5 3.5v-.2A1.3 1.3 0 0 0 9.2 2H3.8A1.8 1.8 0 0 0 2 3.8v5.4a1.3 1.3 0 0 0 1.3 1.3h.2" />
      </svg>
    </button>
  );
}
