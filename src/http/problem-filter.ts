import { type ArgumentsHost, Catch, type ExceptionFilter } from '@nestjs/common';
import type { Server } from './server.ts';

/** Nest catches what controllers throw; the answer is the server's, as for everything else. */
@Catch()
export class ProblemFilter implements ExceptionFilter {
  constructor(private readonly server: Server) {}

  catch(error: unknown, host: ArgumentsHost): void {
    const http = host.switchToHttp();
    this.server.reply(error, http.getRequest(), http.getResponse());
  }
}
