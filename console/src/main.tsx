import { render } from 'preact';
import { App } from './app.tsx';
import { followKeys } from './keyboard.tsx';
import { followLive } from './live.ts';
import { readSession } from './session.ts';

const root = document.getElementById('app')!;
root.replaceChildren();
render(<App />, root);
followKeys();
followLive();
void readSession();
// The other screens come while one reads the first; when that fails, they are fetched when they are opened.
addEventListener('load', () => void import('./other-screens.ts').catch(() => undefined));
