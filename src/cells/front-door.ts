import { randomUUID } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { etagOf, matchesEtag } from '../http/etag.ts';
import { OpenApi } from '../http/openapi.ts';
import { itemCursors, MERGED_HEADER } from '../http/pages.ts';
import { Problem } from '../http/problems.ts';
import { type Cell, cellAway } from './cell.ts';
import type { CellsView } from './cells-view.ts';
import { type CopyReply, callCopy } from './copied-request.ts';
import type { Engine } from './engine.ts';
import { type CellPage, MergedPages, type PageQuery } from './merged-pages.ts';
import { changesDefinitions, type Rule, ruleOf } from './route-rules.ts';
import { slotOf } from './slot-of.ts';

/** Marks a copy of a request, which was directed already. */
const COPY_HEADER = 'sluice-copy';
/** Headers of a request that are not of its copies. */
const OWN_HEADERS = ['content-length', 'transfer-encoding', 'connection'];
/** Headers of a copy's response that its reply sets itself. */
const OWN_REPLY_HEADERS = ['content-length', 'connection', 'date', 'keep-alive', 'transfer-encoding'];

/**
 * Decides for each request, after its caller was authenticated, which cell answers it. A request for another cell is handed
 * over as it is, body unread; where several cells are asked, each gets a copy without a body.
 */
export class FrontDoor {
  /** The value of the header of copies; nobody else knows it. */
  private readonly token = randomUUID();
  private readonly cursors = new Map<string, readonly string[]>();
  private readonly pages = new MergedPages();

  constructor(private readonly cells: CellsView) {}

  /** To the home cell's engine, before its routes exist. */
  attachToHome({ server, nest }: Engine): void {
    const fastify = server.adapter.getInstance();
    fastify.addHook('onRequest', (request, reply) => this.direct(request, reply, nest.get(OpenApi)));
    fastify.addHook('onSend', async (request, reply) => {
      const path = pathOf(request);
      if (reply.statusCode >= 300 || !changesDefinitions(request.method, path)) return;
      const behind = await this.cells.copyDefinitions();
      if (behind.length > 0) reply.header('sluice-cells-behind', behind.join(','));
    });
    this.attach({ server, nest });
  }

  /** To every engine: keeps the cursors of pages that will be merged. */
  attach({ server }: Pick<Engine, 'server' | 'nest'>): void {
    server.adapter.getInstance().addHook('preSerialization', async (request, _reply, payload) => {
      const id = request.headers[MERGED_HEADER];
      if (id === undefined || request.headers[COPY_HEADER] !== this.token) return payload;
      const cursors = itemCursors(payload);
      if (cursors) this.cursors.set(String(id), cursors);
      return payload;
    });
  }

  private async direct(request: FastifyRequest, reply: FastifyReply, openApi: OpenApi): Promise<unknown> {
    // Routes without access control belong to the replica. A copy has been directed already.
    if (!request.caller || request.headers[COPY_HEADER] === this.token) return undefined;
    const rule = ruleOf(request.method, pathOf(request));
    const { cell: named } = request.query as { cell?: unknown };
    if (named !== undefined) return this.toNamed(named, rule, request, reply);
    switch (rule.to) {
      case 'home':
        return undefined;
      case 'named':
        throw new Problem(
          'invalid',
          `With CELLS this route works on one cell: add ?cell= with one of ${this.cells.names.join(', ')}.`,
        );
      case 'key':
        return this.handOver(this.cellOfKey(segment(request, rule.parameter)), request, reply);
      case 'owner':
        return this.toOwner(rule, request, reply);
      case 'all':
        return this.merge(rule, request, reply);
      case 'read':
        return this.read(rule, request, reply, openApi);
    }
  }

  private toNamed(named: unknown, rule: Rule, request: FastifyRequest, reply: FastifyReply): unknown {
    const cell = typeof named === 'string' ? this.cells.byName(named) : undefined;
    if (!cell) throw new Problem('invalid', `cell must be one of ${this.cells.names.join(', ')}.`);
    if (rule.to === 'home' && request.method !== 'GET')
      throw new Problem('invalid', 'This route does not take ?cell=: it is the same for all cells.');
    delete (request.query as { cell?: string }).cell;
    const url = new URL(request.url, 'http://localhost');
    url.searchParams.delete('cell');
    request.raw.url = url.pathname + url.search;
    return this.handOver(cell, request, reply);
  }

  /** To another cell as it is; undefined if the home cell goes on with it. */
  private handOver(cell: Cell, request: FastifyRequest, reply: FastifyReply): FastifyReply | undefined {
    const engine = cell.running;
    if (cell === this.cells.home) return undefined;
    request.raw.headers['x-request-id'] = request.id;
    reply.hijack();
    engine.server.adapter.getInstance().routing(request.raw, reply.raw);
    return reply;
  }

  private cellOfKey(key: string): Cell {
    return this.cellOfSlot(slotOf(key));
  }

  private cellOfSlot(slot: number): Cell {
    const { cell } = this.cells.catalogue.slot(slot);
    const known = this.cells.byNumber(cell);
    if (!known) throw cellAway(this.cells.catalogue.nameOf(cell), 'it is not in CELLS of this replica');
    return known;
  }

  private async toOwner(rule: Rule & { to: 'owner' }, request: FastifyRequest, reply: FastifyReply) {
    const isRead = request.method === 'GET';
    const search = request.url.slice(pathOf(request).length);
    const url = isRead
      ? request.url
      : rule.locate(pathOf(request)) + (search.includes('source=') ? search : '');
    const asked = await this.askAll(request, url);
    const found = asked.filter((one) => one.reply && one.reply.statusCode !== 404);
    const [owner] = await this.withKey(found);
    if (!owner) {
      const away = asked.find((one) => !one.reply);
      if (away) throw cellAway(away.cell.name, 'away');
      return this.respond(reply, asked[0]!.reply!);
    }
    return isRead ? this.respond(reply, owner.reply!) : this.handOver(owner.cell, request, reply);
  }

  /** After a move of slots, two cells can know a message: the one that has its key counts. */
  private async withKey<One extends { cell: Cell; reply: CopyReply | undefined }>(
    found: readonly One[],
  ): Promise<readonly One[]> {
    if (found.length < 2) return found;
    const own = found.filter(({ cell, reply }) => {
      const { key } = (parsed(reply!.payload) ?? {}) as { key?: unknown };
      return typeof key === 'string' && this.cellOfKey(key) === cell;
    });
    return own.length > 0 ? own : found;
  }

  private async read(
    rule: Rule & { to: 'read' },
    request: FastifyRequest,
    reply: FastifyReply,
    openApi: OpenApi,
  ) {
    const id = segment(request, rule.parameter);
    if (id === '') return this.list(request, reply, openApi);
    const first = this.cellOfKey(id);
    const answer = await this.ask(first, request, request.url);
    if (answer.statusCode !== 404) return this.respond(reply, answer);
    const others = this.cells.all.filter((cell) => cell !== first && cell.state === 'up');
    const answers = await Promise.all(others.map((cell) => this.ask(cell, request, request.url)));
    return this.respond(reply, answers.find(({ statusCode }) => statusCode < 300) ?? answer);
  }

  /** A list of a read model; anything else without a key is of one cell. */
  private list(request: FastifyRequest, reply: FastifyReply, openApi: OpenApi) {
    const parameters = parametersOf(openApi, request.routeOptions.url);
    if (!parameters.has('cursor'))
      throw new Problem('invalid', `With CELLS this read model has an answer for each cell: add ?cell=.`);
    const { sort = parameters.get('sort') ?? 'id' } = request.query as { sort?: string };
    const descending = sort.startsWith('-');
    const rule = { to: 'all', sort: descending ? sort.slice(1) : sort, descending } as const;
    return this.merge(rule, request, reply, true);
  }

  private async merge(
    rule: Rule & { to: 'all' },
    request: FastifyRequest,
    reply: FastifyReply,
    tagged = false,
  ) {
    const away = this.cells.all.find(({ state }) => state !== 'up');
    if (away) throw cellAway(away.name, 'away');
    const query = request.query as PageQuery;
    const owner = await this.ownerOf(query.after, request);
    const path = pathOf(request);
    const pageOf = async (cell: string, own: URLSearchParams): Promise<CellPage> => {
      if (owner !== undefined && owner !== cell) for (const name of ['after', 'wait']) own.delete(name);
      const id = randomUUID();
      const copy = await this.ask(this.cells.byName(cell)!, request, `${path}?${own}`, id);
      const cursors = this.cursors.get(id) ?? [];
      this.cursors.delete(id);
      return { status: copy.statusCode, body: copy.payload, cursors };
    };
    const merged = await this.pages.merge({ cells: this.cells.names, query, rule, pageOf });
    if (merged.kind === 'refused')
      return reply.code(merged.status).type('application/problem+json').serializer(String).send(merged.body);
    const text = JSON.stringify(merged.page);
    reply.type('application/json; charset=utf-8').serializer(String);
    if (!tagged) return reply.send(text);
    const etag = etagOf(text);
    reply.header('etag', etag).header('cache-control', 'private, no-cache');
    return matchesEtag(request.headers['if-none-match'], etag) ? reply.code(304).send() : reply.send(text);
  }

  /** The cell of the message that a list must include. */
  private async ownerOf(after: string | undefined, request: FastifyRequest): Promise<string | undefined> {
    if (after === undefined) return undefined;
    const asked = await this.askAll(request, `/v1/messages/${encodeURIComponent(after)}?payload=none`);
    const found = asked.find((one) => one.reply && one.reply.statusCode !== 404);
    return (found?.cell ?? this.cells.home).name;
  }

  private askAll(request: FastifyRequest, url: string) {
    return Promise.all(
      this.cells.all.map(async (cell) => {
        const reply = cell.state === 'up' ? await this.ask(cell, request, url) : undefined;
        return { cell, reply: reply?.statusCode === 503 ? undefined : reply };
      }),
    );
  }

  private async ask(cell: Cell, request: FastifyRequest, url: string, page?: string): Promise<CopyReply> {
    const headers: Record<string, string | string[] | undefined> = {
      ...request.headers,
      [COPY_HEADER]: this.token,
      'x-request-id': request.id,
      ...(page === undefined ? {} : { [MERGED_HEADER]: page }),
    };
    for (const name of OWN_HEADERS) delete headers[name];
    return callCopy(cell.running.server.adapter.getInstance(), url, headers);
  }

  private respond(reply: FastifyReply, { statusCode, headers, payload }: CopyReply): FastifyReply {
    for (const [name, value] of Object.entries(headers))
      if (!OWN_REPLY_HEADERS.includes(name)) reply.header(name, value);
    return reply.code(statusCode).serializer(String).send(payload);
  }
}

function pathOf({ url }: FastifyRequest): string {
  const end = url.indexOf('?');
  return end < 0 ? url : url.slice(0, end);
}

/** A segment of the path, decoded; '' if there is none. */
function segment(request: FastifyRequest, index: number): string {
  const text = pathOf(request).split('/')[index] ?? '';
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The parameters of a GET, each with its default. */
function parametersOf({ document }: OpenApi, path = ''): ReadonlyMap<string, string | undefined> {
  const declared = document.paths[path]?.get?.parameters ?? [];
  return new Map(
    declared.flatMap((one) =>
      'name' in one ? [[one.name, (one.schema as { default?: string } | undefined)?.default]] : [],
    ),
  );
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
