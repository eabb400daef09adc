import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';

const open = signal<ComponentChildren>(null);
/** The screen over which it was opened. */
let shownAt: string | undefined;

/** Shows a dialog. `<dialog>` keeps the focus inside, and gives it back to what had it before. */
export function show(content: ComponentChildren): void {
  shownAt = location.hash;
  open.value = content;
}

export function close(): void {
  open.value = null;
}

// A link in a dialog, or "back", leads to a screen that the dialog would cover. One that was opened with that screen stays.
addEventListener('hashchange', () => {
  if (location.hash !== shownAt) close();
});

export function DialogHost() {
  const element = useRef<HTMLDialogElement>(null);
  const content = open.value;
  useLayoutEffect(() => {
    if (content && !element.current?.open) {
      element.current?.showModal();
      focusFirstField();
    }
    if (!content) element.current?.close();
  }, [content]);
  // The browser reports a close a moment later: another dialog may have been shown since.
  const closed = () => {
    if (!element.current?.open) close();
  };
  return (
    <dialog ref={element} onClose={closed} aria-labelledby="dialog-title">
      {content}
    </dialog>
  );
}

/** The browser would focus what scrolls, when not all of the form is in sight. */
export function focusFirstField(): void {
  document.querySelector<HTMLElement>('dialog :is(input, select, textarea):enabled')?.focus();
}

export function Dialog({
  title,
  children,
  footer,
  onSubmit,
}: {
  title: string;
  children: ComponentChildren;
  footer?: ComponentChildren;
  onSubmit?: () => void;
}) {
  return (
    <form
      method="dialog"
      onSubmit={(event) => {
        event.preventDefault();
        onSubmit?.();
      }}
    >
      <h2 id="dialog-title">{title}</h2>
      <div class="dialog-body">{children}</div>
      <footer>
        <button type="button" onClick={close}>
          {onSubmit ? 'Cancel' : 'Close'}
        </button>
        {footer}
      </footer>
    </form>
  );
}
