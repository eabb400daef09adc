import { refresh } from './load.ts';
import { Dialog, show } from './parts/dialog.tsx';
import { go, to } from './router.ts';
import { MENU } from './screens.ts';

/** The second key of `g` must come within this time. */
const SEQUENCE_MS = 1_500;
let pressedG = 0;

export function followKeys(): void {
  addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (document.querySelector('dialog[open]')) return;
    if (press(event.key)) event.preventDefault();
  });
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.matches('input, textarea, select');
}

function press(key: string): boolean {
  if (Date.now() - pressedG < SEQUENCE_MS) {
    pressedG = 0;
    const screen = MENU.find(([, one]) => one.key === key);
    if (screen) go(to(screen[0]));
    return screen !== undefined;
  }
  const command = COMMANDS[key];
  command?.();
  return command !== undefined;
}

const COMMANDS: Readonly<Record<string, () => void>> = {
  g: () => {
    pressedG = Date.now();
  },
  '/': () => document.getElementById('find')?.focus(),
  j: () => moveRow(1),
  k: () => moveRow(-1),
  r: refresh,
  '?': () => show(<Help />),
};

/** The focus goes to the first link or button of the next row. */
function moveRow(by: number): void {
  const rows = [...document.querySelectorAll('[data-rows] tbody tr, li[data-row]')];
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const next = rows[Math.min(rows.length - 1, Math.max(0, at === -1 ? 0 : at + by))];
  next?.querySelector<HTMLElement>('a, button')?.focus();
}

function Help() {
  const keys: [string, string][] = [
    ['/', 'find a message, delivery, key or name'],
    ['j  k', 'next and previous row; Enter opens it'],
    ['r', 'read everything on the screen again'],
    ['Esc', 'close a dialog'],
    ['?', 'this help'],
    ...MENU.map(([, { key, title }]): [string, string] => [`g ${key}`, title]),
  ];
  return (
    <Dialog title="Keys">
      <dl class="keys">
        {keys.map(([key, what]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
