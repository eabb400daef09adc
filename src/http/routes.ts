import type { FastifyInstance, RouteOptions } from 'fastify';
import type { Access } from './access.ts';

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
    if (route.config?.body === 'raw-batch') route.bodyLimit = this.batchBodyLimit;
    for (const method of [route.method].flat()) {
      if (method === 'OPTIONS') continue;
      const access = route.config?.access;
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
