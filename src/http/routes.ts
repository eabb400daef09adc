import type { FastifyInstance, RouteOptions } from 'fastify';
import { type Access, isScope } from './access.ts';

/** For a caller that is not known: what it sends shares BODIES_LIMIT with everybody. Enough for a sign-in. */
const ANONYMOUS_BODY_LIMIT = 4_096;

export interface Route {
  readonly method: string;
  readonly url: string;
  readonly access: Access;
}

/** All registered routes. A route that does not declare its access stops the start. */
export class RouteTable {
  readonly routes: Route[] = [];

  constructor(private readonly batchBodyLimit: number) {}

  attach(fastify: FastifyInstance): void {
    fastify.addHook('onRoute', (route) => this.add(route));
  }

  /** The methods that a path supports, for a 405. */
  methodsOf(path: string): string[] {
    const matching = this.routes.filter(({ url }) => patternOf(url).test(path));
    return [...new Set(matching.map(({ method }) => method))];
  }

  private add(route: RouteOptions): void {
    const { access, body } = route.config ?? {};
    if (body === 'raw-batch') route.bodyLimit = this.batchBodyLimit;
    if (access && !isScope(access)) route.bodyLimit = ANONYMOUS_BODY_LIMIT;
    for (const method of [route.method].flat()) {
      if (method === 'OPTIONS') continue;
      if (!access) throw new Error(`${method} ${route.url} does not declare who may call it: add @Allow(…)`);
      this.routes.push({ method, url: route.url, access });
    }
  }
}

function patternOf(url: string): RegExp {
  const parts = url.split(/(:[A-Za-z]+|\*)/).map((part) => {
    if (part === '*') return '.*';
    return part.startsWith(':') ? '[^/]+' : part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  });
  return new RegExp(`^${parts.join('')}/?$`);
}
