import { Injectable, type OnModuleInit } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Wakeups } from '../../lanes/wakeups.ts';

const QUEUE = 'operator-actions';
const NO_LANES = new Set<number>();

/** Announces to all replicas that an operator has changed something, so that viewers see it at once. */
@Injectable()
export class OperatorActions implements OnModuleInit {
  constructor(
    private readonly host: HttpAdapterHost,
    private readonly wakeups: Wakeups,
  ) {}

  onModuleInit(): void {
    const fastify: FastifyInstance = this.host.httpAdapter.getInstance();
    fastify.addHook('onResponse', (request, reply, done) => {
      if (isAction(request) && reply.statusCode < 300) this.wakeups.announce(QUEUE, NO_LANES);
      done();
    });
  }

  on(handler: () => void): void {
    this.wakeups.on(QUEUE, handler);
  }
}

function isAction({ method, routeOptions }: FastifyRequest): boolean {
  return routeOptions.config.access === 'admin' && method !== 'GET' && method !== 'HEAD';
}
