import { type ArgumentsHost, Catch, type ExceptionFilter } from '@nestjs/common';
import type { Server } from './server.ts';

/** Passes what controllers throw to the server, which also responds to errors outside controllers. */
@Catch()
export class ProblemFilter implements ExceptionFilter {
  constructor(private readonly server: Server) {}

  catch(error: unknown, host: ArgumentsHost): void {
    const http = host.switchToHttp();
    this.server.reply(error, http.getRequest(), http.getResponse());
  }
}
