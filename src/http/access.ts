import { applyDecorators } from '@nestjs/common';
import { RouteConfig } from '@nestjs/platform-fastify';
import { ApiBearerAuth, ApiExtension } from '@nestjs/swagger';
import type { FastifyRequest } from 'fastify';
import type { Scope } from '../config/api-keys-variable.ts';
import type { Binding } from '../config/key-binding.ts';
import { Problem } from './problems.ts';

/** Who may call a route: a scope, `public` where no key is needed, `metrics` where a setting decides. */
export type Access = Scope | 'public' | 'metrics';

/** How a route wants its body: parsed and checked, or as the bytes that came (with the limit of a batch); or it has no use for one. */
export type BodyForm = 'parsed' | 'raw' | 'raw-batch' | 'none';

export interface RouteAccess {
  readonly access: Access;
  readonly body: BodyForm;
}

declare module 'fastify' {
  interface FastifyContextConfig extends Partial<RouteAccess> {}
  interface FastifyRequest {
    caller: Caller;
  }
}

/** Who is calling: the key's name, which is also the source of the messages it posts; and whom it may post for. */
export interface Caller extends Binding {
  readonly name: string;
  readonly scopes: readonly Scope[];
}

/** Every route declares this; one that does not, stops the start. */
export function Allow(access: Access, body: BodyForm = 'parsed'): MethodDecorator {
  const route = RouteConfig({ access, body });
  if (access === 'public' || access === 'metrics') return applyDecorators(route);
  return applyDecorators(route, ApiBearerAuth(), ApiExtension('x-scope', access)) as MethodDecorator;
}

export function permits(caller: Caller, access: Scope): boolean {
  return caller.scopes.includes('admin') || caller.scopes.includes(access);
}

/** The bearer token of a request, or a 401 that says how to send one. */
export function bearerToken(request: FastifyRequest): string {
  const match = /^Bearer +([^\s]+) *$/i.exec(request.headers.authorization ?? '');
  if (match) return match[1]!;
  throw unauthenticated('Send "Authorization: Bearer <api key>".');
}

export function unauthenticated(detail: string): Problem {
  return new Problem('unauthenticated', detail, { headers: { 'www-authenticate': 'Bearer' } });
}
