/** Where requests of a route go, with CELLS. */
export type Rule =
  /** To the home cell: definitions, keys, the console, and posts of messages, which it distributes. */
  | { readonly to: 'home' }
  /** To the cell of the key in the path. */
  | { readonly to: 'key'; readonly parameter: number }
  /** To the cell that knows what the path of `locate` names: asked are all. */
  | { readonly to: 'owner'; readonly locate: (path: string) => string }
  /** To all cells; their pages become one. */
  | { readonly to: 'all'; readonly sort: string; readonly descending: boolean }
  /** To the cell that `?cell=` names; it is required. */
  | { readonly to: 'named' }
  /** To the cell of the key in the path, and if that knows nothing of it, to the others. */
  | { readonly to: 'read'; readonly parameter: number };

interface Route {
  readonly methods: string;
  readonly pattern: RegExp;
  readonly rule: Rule;
}

const HOME: Rule = { to: 'home' };
const NAMED: Rule = { to: 'named' };
const newest = (sort: string): Rule => ({ to: 'all', sort, descending: true });

/** `:x` is one segment of the path. */
function route(methods: string, path: string, rule: Rule): Route {
  return { methods, pattern: new RegExp(`^${path.replace(/:[a-z]+/g, '[^/]+')}/?$`), rule };
}

/** The part of a path up to its n-th segment. */
const upTo = (segments: number) => (path: string) =>
  path
    .split('/')
    .slice(0, segments + 1)
    .join('/');

/** The first that matches counts. What matches none is a read model, or a route of the home cell. */
const ROUTES: readonly Route[] = [
  route('POST', '/v1/messages(/batch)?', HOME),
  route('GET', '/v1/messages', newest('receivedAt')),
  route('GET', '/v1/messages/:id(/why|/payload)?', { to: 'owner', locate: upTo(3) }),
  route('*', '/v1/keys/:key(/hold)?', { to: 'key', parameter: 3 }),
  route('GET', '/v1/holds', { to: 'all', sort: 'since', descending: false }),
  route('GET', '/v1/listeners/:name/deliveries', newest('createdAt')),
  route('*', '/v1/listeners/:name/(pull|acknowledge|replay|replays/:id|replays/:id/cancel)', NAMED),
  route('*', '/v1/deliveries/:id(/resend)?', { to: 'owner', locate: upTo(3) }),
  route('GET', '/v1/dead-letters', newest('diedAt')),
  route('*', '/v1/dead-letters/(groups|revive|discard|rulings|rulings/:id|rulings/:id/cancel)', NAMED),
  route('*', '/v1/dead-letters/:id(/revive)?', { to: 'owner', locate: upTo(3) }),
  route('*', '/v1/groups/:group/(members|members/:member|poll|commit|seek)', NAMED),
  route('POST', '/v1/topics/:topic/messages(/batch)?', HOME),
  route('GET', '/v1/topics/:topic/messages', NAMED),
  route('GET', '/v1/(replays|producers/:id)', NAMED),
  route('*', '/v1/read-models(/.*)?', NAMED),
  route('GET', '/v1/audit', newest('at')),
];

/** Of the engine: definitions of the home cell, and what describes one cell at a time (`?cell=`, else the home cell). */
const OF_HOME =
  /^\/(v1\/(api-keys|settings|session|listeners|topics|groups|schedules|backlog|activity|attention|replicas|live|find|cells)(\/|$)|(?!v1\/))/;

const DEFINITIONS = /^\/v1\/(listeners|topics|groups|api-keys|schedules)(\/|$)/;

export function ruleOf(method: string, path: string): Rule {
  const found = ROUTES.find(
    ({ methods, pattern }) => (methods === '*' || methods === method) && pattern.test(path),
  );
  if (found) return found.rule;
  if (method !== 'GET' || OF_HOME.test(path)) return HOME;
  // A read model: /v1/candidates, /v1/candidates/c-1, /v1/candidates/c-1/history.
  return { to: 'read', parameter: 3 };
}

/** Whether it changes what exists once, in the home cell. */
export function changesDefinitions(method: string, path: string): boolean {
  return (
    method !== 'GET' && method !== 'HEAD' && ruleOf(method, path).to === 'home' && DEFINITIONS.test(path)
  );
}
