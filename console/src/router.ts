import { computed, signal } from '@preact/signals';

/** Where we are: a screen and its parameters, all of it in the hash, so that any prefix and any reload works. */
interface Route {
  readonly screen: string;
  readonly query: Readonly<Record<string, string>>;
}

const hash = signal(location.hash);
addEventListener('hashchange', () => {
  hash.value = location.hash;
});

export const route = computed<Route>(() => parse(hash.value));

function parse(text: string): Route {
  const [name = '', query = ''] = text.replace(/^#\/?/, '').split(/\?(.*)/s);
  return { screen: name || 'now', query: Object.fromEntries(new URLSearchParams(query)) };
}

/** The link to a screen; empty parameters are left out. */
export function to(screen: string, query: Readonly<Record<string, string | undefined>> = {}): string {
  const given = Object.entries(query).filter((entry): entry is [string, string] => Boolean(entry[1]));
  return `#/${screen}${given.length ? `?${new URLSearchParams(given)}` : ''}`;
}

export function go(target: string): void {
  location.hash = target;
}

/** Changes parameters of the screen without an entry in the history for every keystroke. */
export function refine(changes: Readonly<Record<string, string | undefined>>): void {
  const { screen, query } = route.value;
  history.replaceState(null, '', to(screen, { ...query, ...changes }));
  hash.value = location.hash;
}
