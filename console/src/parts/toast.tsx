import { signal } from '@preact/signals';

const SHOWN_MS = 6_000;
const toast = signal<{ readonly text: string; readonly link?: string } | undefined>(undefined);
let timer: ReturnType<typeof setTimeout> | undefined;

/** Says what an action did; also to a screen reader. */
export function say(text: string, link?: string): void {
  toast.value = { text, ...(link ? { link } : {}) };
  clearTimeout(timer);
  timer = setTimeout(() => {
    toast.value = undefined;
  }, SHOWN_MS);
}

export function Toast() {
  const shown = toast.value;
  return (
    <div class="toast" role="status" aria-live="polite">
      {shown && (
        <p>
          {shown.text} {shown.link && <a href={shown.link}>Show</a>}
        </p>
      )}
    </div>
  );
}
