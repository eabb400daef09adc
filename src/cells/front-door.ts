import type { FastifyReply, FastifyRequest } from 'fastify';
import { OpenApi } from '../http/openapi.ts';
import { Problem } from '../http/problems.ts';
import type { Cell } from './cell.ts';
import { CellRequests } from './cell-requests.ts';
import type { CellsView } from './cells-view.ts';
import type { Engine } from './engine.ts';
import { changesDefinitions, type Rule, ruleOf } from './route-rules.ts';
import { ScatteredReads } from './scattered-reads.ts';

/**
 * Decides for each request, after its caller was authenticated, which cell answers it. A request for another cell is handed
 * over as it is, body unread; where several cells are asked, each gets a copy without a body.
 */
export class FrontDoor {
  private readonly requests: CellRequests;
  private readonly reads: ScatteredReads;

  constructor(private readonly cells: CellsView) {
    this.requests = new CellRequests(cells);
    this.reads = new ScatteredReads(cells, this.requests);
  }

  /** To the home cell's engine, before its routes exist. */
  attachToHome({ server, nest }: Engine): void {
    const fastify = server.adapter.getInstance();
    fastify.addHook('onRequest', (request, reply) => this.direct(request, reply, nest.get(OpenApi)));
    fastify.addHook('onSend', async (request, reply) => {
      const { url = '' } = request.routeOptions;
      if (reply.statusCode >= 300 || !changesDefinitions(request.method, url)) return;
      const behind = await this.cells.copyDefinitions();
      if (behind.length > 0) reply.header('sluice-cells-behind', behind.join(','));
    });
    this.attach({ server });
  }

  /** To every engine. */
  attach(engine: Pick<Engine, 'server'>): void {
    this.requests.attach(engine);
  }

  private async direct(request: FastifyRequest, reply: FastifyReply, openApi: OpenApi): Promise<unknown> {
    const { url } = request.routeOptions;
    // Routes without access control belong to the replica. A copy has been directed already.
    if (!request.caller || url === undefined || this.requests.isCopy(request)) return undefined;
    const rule = ruleOf(request.method, url, isPaged(openApi, url));
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
        // What is set for a key must not stay behind in the cell that it has just left.
        if (this.cells.home.state === 'up') await this.cells.catalogue.refresh().catch(() => undefined);
        return this.handOver(this.reads.cellOfKey(parameterOf(request, rule)), request, reply);
      case 'owner':
        return this.toOwner(rule, request, reply);
      case 'all':
        return this.reads.merge(rule.order, request, reply);
      case 'read':
        return this.reads.read(parameterOf(request, rule), request, reply);
      case 'read-list':
        return this.reads.list(request, reply, openApi);
    }
  }

  private toNamed(named: unknown, rule: Rule, request: FastifyRequest, reply: FastifyReply): unknown {
    const cell = typeof named === 'string' ? this.cells.byName(named) : undefined;
    if (!cell) throw new Problem('invalid', `cell must be one of ${this.cells.names.join(', ')}.`);
    if (!isRead(request)) this.refuseOtherCell(cell, rule, request);
    delete (request.query as { cell?: string }).cell;
    const url = new URL(request.url, 'http://localhost');
    url.searchParams.delete('cell');
    request.raw.url = url.pathname + url.search;
    return this.handOver(cell, request, reply);
  }

  private refuseOtherCell(cell: Cell, rule: Rule, request: FastifyRequest): void {
    if (rule.to === 'home')
      throw new Problem('invalid', 'This route does not take ?cell=: it is the same for all cells.');
    if (rule.to !== 'key') return;
    const own = this.reads.cellOfKey(parameterOf(request, rule));
    if (own !== cell) throw new Problem('invalid', `The key belongs to the cell "${own.name}".`);
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

  private async toOwner(rule: Rule & { to: 'owner' }, request: FastifyRequest, reply: FastifyReply) {
    if (isRead(request))
      return this.reads.respond(reply, (await this.reads.owner(rule, request, request.url)).reply!);
    const owner = await this.reads.owner(rule, request);
    if (owner.reply!.statusCode === 404) return this.reads.respond(reply, owner.reply!);
    return this.handOver(owner.cell, request, reply);
  }
}

function isRead({ method }: FastifyRequest): boolean {
  return method === 'GET' || method === 'HEAD';
}

/** Whether a route of a read model is a list. */
function isPaged({ document }: OpenApi, url: string): boolean {
  const parameters = document.paths[url]?.get?.parameters ?? [];
  return parameters.some((one) => 'name' in one && one.name === 'cursor');
}

function parameterOf(request: FastifyRequest, { parameter }: { readonly parameter: string }): string {
  return (request.params as Record<string, string>)[parameter]!;
}
