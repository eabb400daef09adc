import { createServer } from 'node:net';
import { bodyLength, HEAD_END } from './light-http.mjs';

export const NO_CONTENT = 'HTTP/1.1 204 No Content\r\n\r\n';

/**
 * Receives webhooks and returns 204, with the delay or the failure that the path selects, until it receives `stop`. It does as
 * little work as possible: it shares the CPU with what it measures.
 */
export async function receive() {
  const sockets = new Set();
  const server = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined).on('close', () => sockets.delete(socket));
    takeRequests(socket, answer);
  });
  server.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const stopped = new Promise((resolve) => process.on('message', (word) => word === 'stop' && resolve()));
  process.send({ url: `http://127.0.0.1:${server.address().port}` });
  await stopped;
  server.close();
  for (const socket of sockets) socket.destroy();
}

/** `onRequest(head, socket, body)` for one request after the other. */
export function takeRequests(socket, onRequest) {
  let read = Buffer.alloc(0);
  socket.on('data', (chunk) => {
    read = read.length === 0 ? chunk : Buffer.concat([read, chunk]);
    const end = read.indexOf(HEAD_END);
    if (end < 0) return;
    const head = read.latin1Slice(0, end);
    const start = end + HEAD_END.length;
    const whole = start + bodyLength(head);
    if (read.length < whole) return;
    const body = read.subarray(start, whole);
    read = read.subarray(whole);
    onRequest(head, socket, body);
  });
}

function answer(head, socket) {
  const path = head.slice(head.indexOf(' ') + 1);
  if (path.startsWith('/hang')) return;
  if (path.startsWith('/reset')) socket.resetAndDestroy();
  else if (path.startsWith('/drip')) drip(socket);
  else if (path.startsWith('/takes-'))
    setTimeout(() => socket.write(NO_CONTENT), Number.parseInt(path.slice(7), 10));
  else socket.write(NO_CONTENT);
}

/** A header that never ends. */
function drip(socket) {
  socket.write('HTTP/1.1 200 OK\r\nx-slow: ');
  const timer = setInterval(() => socket.write('z'), 100);
  socket.on('close', () => clearInterval(timer));
}
