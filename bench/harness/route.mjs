import 'reflect-metadata';
import { Body, Controller, HttpCode, Module, Post } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';

/** The same Nest + Fastify route for all contenders, with their handler of the body; serves until `stop`. */
export async function serveRoute(handle) {
  class Messages {
    post(body) {
      return handle(body);
    }
  }
  Body()(Messages.prototype, 'post', 0);
  HttpCode(202)(Messages.prototype, 'post', Object.getOwnPropertyDescriptor(Messages.prototype, 'post'));
  Post('v1/messages')(
    Messages.prototype,
    'post',
    Object.getOwnPropertyDescriptor(Messages.prototype, 'post'),
  );
  Controller()(Messages);
  class RouteModule {}
  Module({ controllers: [Messages] })(RouteModule);
  const app = await NestFactory.create(RouteModule, new FastifyAdapter(), { logger: false });
  await app.listen(0, '127.0.0.1');
  return countCpu(`${await app.getUrl()}/v1/messages`);
}

/** Reports its URL, counts its CPU from `warm` to `over`, serves until `stop`. */
export async function countCpu(url) {
  const signals = { warm: deferred(), over: deferred(), stop: deferred() };
  process.on('message', (word) => signals[word]?.resolve());
  process.send({ url });
  await signals.warm.promise;
  const cpu = process.cpuUsage();
  await signals.over.promise;
  const used = process.cpuUsage(cpu);
  await signals.stop.promise;
  return { nodeCpu: (used.user + used.system) / 1e6 };
}

export function deferred() {
  let resolve;
  const promise = new Promise((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
