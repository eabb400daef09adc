import { randomUUID } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import { itemCursors, MERGED_HEADER } from '../http/pages.ts';
import { type Cell, cellAway } from './cell.ts';
import type { CellsView } from './cells-view.ts';
import { type CopyReply, callCopy } from './copied-request.ts';
import type { Engine } from './engine.ts';

/** Marks a copy of a request, which was directed already. */
const COPY_HEADER = 'sluice-copy';
/** Headers of a request that are not of its copies. */
const OWN_HEADERS = ['content-length', 'transfer-encoding', 'connection'];

/** The response of one cell; undefined: it is away. */
export interface Asked {
  readonly cell: Cell;
  readonly reply: CopyReply | undefined;
}

/** Sends copies of a GET to the engines of cells. */
export class CellRequests {
  /** The value of the header of copies; no other process knows it. */
  private readonly token = randomUUID();
  private readonly cursors = new Map<string, readonly string[]>();

  constructor(private readonly cells: CellsView) {}

  /** To every engine: keeps the cursors of pages that will be merged. */
  attach({ server }: Pick<Engine, 'server'>): void {
    server.adapter.getInstance().addHook('preSerialization', async (request, _reply, payload) => {
      const id = request.headers[MERGED_HEADER];
      if (id === undefined || !this.isCopy(request)) return payload;
      const cursors = itemCursors(payload);
      if (cursors) this.cursors.set(String(id), cursors);
      return payload;
    });
  }

  isCopy({ headers }: FastifyRequest): boolean {
    return headers[COPY_HEADER] === this.token;
  }

  async ask(cell: Cell, request: FastifyRequest, url: string, page?: string): Promise<CopyReply> {
    const headers: Record<string, string | string[] | undefined> = {
      ...request.headers,
      [COPY_HEADER]: this.token,
      'x-request-id': request.id,
      ...(page === undefined ? {} : { [MERGED_HEADER]: page }),
    };
    for (const name of OWN_HEADERS) delete headers[name];
    return callCopy(cell.running.server.adapter.getInstance(), url, headers);
  }

  /** A page of a list, with the cursor after each of its items. */
  async askPage(cell: Cell, request: FastifyRequest, url: string) {
    const id = randomUUID();
    const { statusCode, payload } = await this.ask(cell, request, url, id);
    const cursors = this.cursors.get(id) ?? [];
    this.cursors.delete(id);
    return { status: statusCode, body: payload, cursors };
  }

  askAll(request: FastifyRequest, url: string, cells = this.cells.all): Promise<readonly Asked[]> {
    return Promise.all(
      cells.map(async (cell) => {
        const reply = cell.state === 'up' ? await this.ask(cell, request, url) : undefined;
        return { cell, reply: reply?.statusCode === 503 ? undefined : reply };
      }),
    );
  }
}

/** A cell that is away may have what the others do not know. */
export function refuseIfAway(asked: readonly Asked[]): void {
  const away = asked.find(({ reply }) => !reply);
  if (away) throw cellAway(away.cell.name, 'away');
}
