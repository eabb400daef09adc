import type { FastifyReply } from 'fastify';

/**
 * Calls if the client cannot have read the whole response. `writableFinished` alone does not show it: it is also true of
 * output that Node discarded because the connection was reset.
 */
export function onUnread({ raw, request }: FastifyReply, call: () => void): void {
  const { socket } = request.raw;
  if (raw.destroyed) call();
  else
    raw.once('close', () => {
      if (!raw.writableFinished || socket.destroyed || socket.readableEnded) call();
    });
}
