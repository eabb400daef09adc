import type { FastifyReply, FastifyRequest } from 'fastify';
import { etagOf, matchesEtag } from '../http/etag.ts';
import type { OpenApi } from '../http/openapi.ts';
import { sourceOfCaller } from '../inbox/new-message.ts';
import { type Cell, cellAway, slotMoves } from './cell.ts';
import { type Asked, type CellRequests, refuseIfAway } from './cell-requests.ts';
import type { CellsView } from './cells-view.ts';
import type { CopyReply } from './copied-request.ts';
import { MergedPages, type PageQuery } from './merged-pages.ts';
import type { Order, Rule } from './route-rules.ts';
import { slotOf } from './slot-of.ts';

/** Without the query. */
export function pathOf({ url }: Pick<FastifyRequest, 'url'>): string {
  const end = url.indexOf('?');
  return end < 0 ? url : url.slice(0, end);
}

/** Headers of a copy's response that its reply sets itself. */
const OWN_REPLY_HEADERS = ['content-length', 'connection', 'date', 'keep-alive', 'transfer-encoding'];
const NOT_MODIFIED = 304;

/** Reads for which several cells are asked. */
export class ScatteredReads {
  private readonly pages = new MergedPages();

  constructor(
    private readonly cells: CellsView,
    private readonly requests: CellRequests,
  ) {}

  cellOfKey(key: string): Cell {
    const { cell, moving_to } = this.cells.catalogue.slot(slotOf(key));
    if (moving_to !== null) throw slotMoves();
    const known = this.cells.byNumber(cell);
    if (!known) throw cellAway(this.cells.catalogue.nameOf(cell), 'it is not in CELLS of this replica');
    return known;
  }

  /** The cell that knows it, with its reply to `url`; if none does, what one of them replies. */
  async owner(rule: Rule & { to: 'owner' }, request: FastifyRequest, url?: string): Promise<Asked> {
    const located = locate(rule, request);
    const { version } = this.cells.catalogue;
    const asked = await this.requests.askAll(request, url ?? located);
    const found = asked.filter(({ reply }) => reply && reply.statusCode !== 404);
    if (found.length === 0) {
      refuseIfAway(asked);
      if (await this.hasMoved(version)) return this.owner(rule, request, url);
    }
    if (found.length < 2) return found[0] ?? asked[0]!;
    const cells = found.map(({ cell }) => cell);
    const known = url === undefined ? found : await this.requests.askAll(request, located, cells);
    const cell = this.withKey(known) ?? cells[0]!;
    return found.find((one) => one.cell === cell)!;
  }

  /** Whether what was not found may have been on its way from one cell to another. */
  private async hasMoved(version: number): Promise<boolean> {
    const { catalogue, home } = this.cells;
    if (home.state === 'up') await catalogue.refresh().catch(() => undefined);
    if (catalogue.isMoving) throw slotMoves();
    return catalogue.version !== version;
  }

  /** A row of a read model, or what belongs to one. */
  async read(id: string, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { version } = this.cells.catalogue;
    const first = this.cellOfKey(id);
    const own = await this.requests.ask(first, request, request.url);
    if (own.statusCode !== 404) return this.respond(reply, own);
    const others = this.cells.all.filter((cell) => cell !== first);
    const asked = await this.requests.askAll(request, request.url, others);
    const found = asked.find((one) => one.reply && isFound(one.reply));
    if (!found) {
      refuseIfAway(asked);
      if (await this.hasMoved(version)) return this.read(id, request, reply);
    }
    return this.respond(reply, found?.reply ?? own);
  }

  /** A list of a read model. */
  list(request: FastifyRequest, reply: FastifyReply, openApi: OpenApi): Promise<FastifyReply> {
    const { sort = defaultSort(openApi, request.routeOptions.url) ?? 'id' } = request.query as PageQuery;
    const descending = sort.startsWith('-');
    const order = { member: descending ? sort.slice(1) : sort, descending };
    return this.merge(order, request, reply, true);
  }

  async merge(order: Order, request: FastifyRequest, reply: FastifyReply, tagged = false) {
    const away = this.cells.all.find(({ state }) => state !== 'up');
    if (away) throw cellAway(away.name, 'away');
    const query = request.query as PageQuery;
    const owners = await this.ownersOf(query.after, request);
    const pageOf = (name: string, own: URLSearchParams) => {
      const cell = this.cells.byName(name)!;
      if (owners && !owners.includes(cell)) for (const parameter of ['after', 'wait']) own.delete(parameter);
      return this.requests.askPage(cell, request, `${pathOf(request)}?${own}`);
    };
    const merged = await this.pages.merge({ cells: this.cells.names, query, order, pageOf });
    if (merged.kind === 'refused')
      return reply.code(merged.status).type('application/problem+json').serializer(String).send(merged.body);
    const text = JSON.stringify(merged.page);
    reply.type('application/json; charset=utf-8').serializer(String);
    if (!tagged) return reply.send(text);
    const etag = etagOf(text);
    reply.header('etag', etag).header('cache-control', 'private, no-cache');
    return matchesEtag(request.headers['if-none-match'], etag)
      ? reply.code(NOT_MODIFIED).send()
      : reply.send(text);
  }

  respond(reply: FastifyReply, { statusCode, headers, payload }: CopyReply): FastifyReply {
    for (const [name, value] of Object.entries(headers))
      if (!OWN_REPLY_HEADERS.includes(name)) reply.header(name, value);
    return reply.code(statusCode).serializer(String).send(payload);
  }

  /** The cells that wait for the message that a list must include: those with the caller's own, else all that know the id. */
  private async ownersOf(
    after: string | undefined,
    request: FastifyRequest,
  ): Promise<readonly Cell[] | undefined> {
    if (after === undefined) return undefined;
    const url = `/v1/messages/${encodeURIComponent(after)}?payload=none`;
    const own = `${url}&source=${encodeURIComponent(sourceOfCaller(request.caller.name))}`;
    for (const one of [own, url]) {
      const asked = await this.requests.askAll(request, one);
      refuseIfAway(asked);
      // 409: several sources have used the id in that cell.
      const known = asked.filter(({ reply }) => reply && (isFound(reply) || reply.statusCode === 409));
      if (known.length > 0) return known.map(({ cell }) => cell);
    }
    return [this.cells.home];
  }

  /** Of two cells that know the same id, the one that has its key. */
  private withKey(asked: readonly Asked[]): Cell | undefined {
    return asked.find(({ cell, reply }) => {
      const { key } = (reply && isFound(reply) ? JSON.parse(reply.payload) : {}) as { key?: unknown };
      return typeof key === 'string' && this.cellOfKey(key) === cell;
    })?.cell;
  }
}

function isFound({ statusCode }: CopyReply): boolean {
  return statusCode < 300 || statusCode === NOT_MODIFIED;
}

function locate({ at, query }: Rule & { to: 'owner' }, request: FastifyRequest): string {
  const parameters = request.params as Record<string, string>;
  const path = at.replace(/:([a-z]+)/g, (_, name: string) => encodeURIComponent(parameters[name]!));
  const url = new URL(path, 'http://localhost');
  const given = request.query as Record<string, string | undefined>;
  for (const name of query) if (given[name] !== undefined) url.searchParams.set(name, given[name]);
  return url.pathname + url.search;
}

function defaultSort({ document }: OpenApi, url = ''): string | undefined {
  const sort = document.paths[url]?.get?.parameters?.find((one) => 'name' in one && one.name === 'sort');
  return (sort as { schema?: { default?: string } } | undefined)?.schema?.default;
}
