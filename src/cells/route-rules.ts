/** How the items of a merged list are ordered. */
export type Order = { readonly member: string; readonly descending: boolean } | 'slot-and-key';

/** Where requests of a route go, with CELLS. */
export type Rule =
  /** To the home cell. `defines`: it changes what is defined once and copied to the other cells. */
  | { readonly to: 'home'; readonly defines?: true }
  /** To the cell of the key, which is this parameter of the path. */
  | { readonly to: 'key'; readonly parameter: string }
  /** To the cell that finds something at `at`, with these parameters of the request: asked are all. */
  | { readonly to: 'owner'; readonly at: string; readonly query: readonly string[] }
  /** To all cells; their pages become one. */
  | { readonly to: 'all'; readonly order: Order }
  /** To the cell that `?cell=` names; it is required. */
  | { readonly to: 'named' }
  /** To the cell of the key, which is this parameter of the path; if that knows nothing of it, to the others. */
  | { readonly to: 'read'; readonly parameter: string }
  /** To all cells; their pages become one, in the order that `?sort=` or its default says. */
  | { readonly to: 'read-list' };

const HOME: Rule = { to: 'home' };
const DEFINES: Rule = { to: 'home', defines: true };
const NAMED: Rule = { to: 'named' };
const KEY: Rule = { to: 'key', parameter: 'key' };
const MESSAGE: Rule = { to: 'owner', at: '/v1/messages/:id?payload=none', query: ['source'] };
const DELIVERY: Rule = { to: 'owner', at: '/v1/deliveries/:id', query: ['message'] };
const DEAD_LETTER: Rule = { to: 'owner', at: '/v1/dead-letters/:id', query: ['stage', 'source'] };
const newest = (member: string): Rule => ({ to: 'all', order: { member, descending: true } });

/** Every route of the service that has a caller; test/architecture/cell-routes.spec.ts compares them. */
export const RULES: Readonly<Record<string, Rule>> = {
  'POST /v1/messages': HOME,
  'POST /v1/messages/batch': HOME,
  'GET /v1/messages': newest('receivedAt'),
  'GET /v1/messages/:id': MESSAGE,
  'GET /v1/messages/:id/why': MESSAGE,
  'GET /v1/messages/:id/payload': MESSAGE,
  'GET /v1/producers/:id': NAMED,

  'GET /v1/keys/:key': KEY,
  'PUT /v1/keys/:key/hold': KEY,
  'DELETE /v1/keys/:key/hold': KEY,
  'GET /v1/holds': { to: 'all', order: 'slot-and-key' },

  'GET /v1/listeners': HOME,
  'GET /v1/listeners/:name': HOME,
  'PUT /v1/listeners/:name': DEFINES,
  'DELETE /v1/listeners/:name': DEFINES,
  'POST /v1/listeners/:name/rotate-secret': DEFINES,
  'POST /v1/listeners/:name/pause': DEFINES,
  'POST /v1/listeners/:name/resume': DEFINES,
  'POST /v1/listeners/:name/test': HOME,
  'GET /v1/listeners/:name/deliveries': newest('createdAt'),
  'POST /v1/listeners/:name/pull': NAMED,
  'POST /v1/listeners/:name/acknowledge': NAMED,
  'POST /v1/listeners/:name/replay': NAMED,
  'GET /v1/listeners/:name/replays/:id': NAMED,
  'POST /v1/listeners/:name/replays/:id/cancel': NAMED,
  'GET /v1/replays': NAMED,
  'GET /v1/deliveries/:id': DELIVERY,
  'POST /v1/deliveries/:id/resend': DELIVERY,

  'GET /v1/dead-letters': newest('diedAt'),
  'GET /v1/dead-letters/:id': DEAD_LETTER,
  'DELETE /v1/dead-letters/:id': DEAD_LETTER,
  'POST /v1/dead-letters/:id/revive': DEAD_LETTER,
  'GET /v1/dead-letters/groups': NAMED,
  'POST /v1/dead-letters/revive': NAMED,
  'POST /v1/dead-letters/discard': NAMED,
  'GET /v1/dead-letters/rulings': NAMED,
  'GET /v1/dead-letters/rulings/:id': NAMED,
  'POST /v1/dead-letters/rulings/:id/cancel': NAMED,

  'GET /v1/topics': HOME,
  'GET /v1/topics/:topic': HOME,
  'PUT /v1/topics/:topic': DEFINES,
  'DELETE /v1/topics/:topic': DEFINES,
  'POST /v1/topics/:topic/messages': HOME,
  'POST /v1/topics/:topic/messages/batch': HOME,
  'GET /v1/topics/:topic/messages': NAMED,
  'GET /v1/groups': HOME,
  'GET /v1/groups/:group': HOME,
  'PUT /v1/groups/:group': DEFINES,
  'DELETE /v1/groups/:group': DEFINES,
  'POST /v1/groups/:group/members': NAMED,
  'DELETE /v1/groups/:group/members/:member': NAMED,
  'POST /v1/groups/:group/poll': NAMED,
  'POST /v1/groups/:group/commit': NAMED,
  'POST /v1/groups/:group/seek': NAMED,

  'GET /v1/sources': HOME,
  'GET /v1/sources/:name': HOME,
  'DELETE /v1/sources/:name': HOME,
  'GET /v1/sources/:name/refused': HOME,
  'GET /v1/sources/:name/refused/:number/body': HOME,
  'POST /v1/sources/:name/refused/discard': HOME,

  'GET /v1/schedules': HOME,
  'GET /v1/schedules/:name': HOME,
  'PUT /v1/schedules/:name': HOME,
  'DELETE /v1/schedules/:name': HOME,
  'POST /v1/schedules/:name/pause': HOME,
  'POST /v1/schedules/:name/resume': HOME,
  'POST /v1/schedules/:name/run': HOME,

  'GET /v1/history': NAMED,
  'GET /v1/history/messages': NAMED,
  'POST /v1/history/import': NAMED,
  'DELETE /v1/history/keys/:key': KEY,

  'GET /v1/read-models': NAMED,
  'GET /v1/read-models/:name': NAMED,
  'POST /v1/read-models/:name/rebuild': NAMED,
  'POST /v1/read-models/:name/rebuild/skip': NAMED,
  'POST /v1/read-models/:name/rebuild/pause': NAMED,
  'POST /v1/read-models/:name/rebuild/resume': NAMED,
  'POST /v1/read-models/:name/rebuild/cancel': NAMED,
  'POST /v1/read-models/:name/rebuild/switch': NAMED,
  'POST /v1/read-models/:name/rebuild/rollback': NAMED,
  'POST /v1/read-models/:name/rebuild/drop': NAMED,

  'GET /v1/api-keys': HOME,
  'POST /v1/api-keys': HOME,
  'DELETE /v1/api-keys/:id': HOME,
  'GET /v1/audit': newest('at'),
  'GET /v1/settings': HOME,
  'GET /v1/cells': HOME,
  'GET /v1/cells/moves': HOME,
  'POST /v1/cells/:name/slots': HOME,

  // Of one cell at a time: ?cell=, else the home cell.
  'GET /v1/backlog': HOME,
  'GET /v1/activity': HOME,
  'GET /v1/attention': HOME,
  'GET /v1/replicas': HOME,
  'GET /v1/live': HOME,
  'GET /v1/find': HOME,
  'GET /metrics': HOME,
};

/** The rule of a route; `url` is its pattern. `lists`: whether it has pages. */
export function ruleOf(method: string, url: string, lists = false): Rule {
  const verb = method === 'HEAD' ? 'GET' : method;
  return RULES[`${verb} ${url}`] ?? ruleOfReadModel(verb, url, lists);
}

/**
 * Of a read model: a list is merged, /v1/candidates/:id is of a key. What is neither, such as /v1/candidates/summary, has a part
 * in every cell.
 */
function ruleOfReadModel(verb: string, url: string, lists: boolean): Rule {
  if (verb !== 'GET') return NAMED;
  const id = url.split('/')[3];
  if (id?.startsWith(':')) return { to: 'read', parameter: id.slice(1) };
  return lists && !url.includes(':') ? { to: 'read-list' } : NAMED;
}

/** Whether it changes what exists once, in the home cell. */
export function changesDefinitions(method: string, url: string): boolean {
  const rule = ruleOf(method, url);
  return rule.to === 'home' && rule.defines === true;
}
