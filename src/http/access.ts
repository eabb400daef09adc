import { applyDecorators } from '@nestjs/common';
import { RouteConfig } from '@nestjs/platform-fastify';
import { ApiBearerAuth, ApiExtension } from '@nestjs/swagger';
import type { FastifyRequest } from 'fastify';
import { SCOPES, type Scope } from '../config/api-keys-variable.ts';
import type { Binding } from '../config/key-binding.ts';
import { Problem } from './problems.ts';

/**
 * Who may call a route: callers with a scope, everyone (`public`), or by METRICS_ACCESS (`metrics`). `console`: everyone, on
 * replicas with the role `api`; the console and its sign-in.
 */
export type Access = Scope | 'public' | 'metrics' | 'console';

/**
 * How a route takes its body: as parsed and checked JSON, as the raw bytes (`raw-batch`: up to BATCH_BODY_LIMIT), or not at
 * all.
 */
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

/** The authenticated caller: the name of its api key, which is also the source of its messages, and what it may post. */
export interface Caller extends Binding {
  readonly name: string;
  readonly scopes: readonly Scope[];
  /** What proved it, if it was the cookie of a session. */
  readonly session?: string;
}

/** Declares who may call a route. Every route needs it: the service does not start with a route that lacks it. */
export function Allow(access: Access, body: BodyForm = 'parsed'): MethodDecorator {
  const route = RouteConfig({ access, body });
  if (!isScope(access)) return applyDecorators(route);
  return applyDecorators(route, ApiBearerAuth(), ApiExtension('x-scope', access)) as MethodDecorator;
}

export function isScope(access: Access): access is Scope {
  return (SCOPES as readonly string[]).includes(access);
}

export function permits(caller: Caller, access: Scope): boolean {
  return caller.scopes.includes('admin') || caller.scopes.includes(access);
}

/** Returns the bearer token of a request, or throws a 401 that explains how to send one. */
export function bearerToken(request: FastifyRequest): string {
  const match = /^Bearer +([^\s]+) *$/i.exec(request.headers.authorization ?? '');
  if (match) return match[1]!;
  throw unauthenticated('Send an API key: "Authorization: Bearer <API key>".');
}

export function unauthenticated(detail: string): Problem {
  return new Problem('unauthenticated', detail, { headers: { 'www-authenticate': 'Bearer' } });
}
