import { createServer } from 'node:net';
import { bodyLength, HEAD_END } from './light-http.mjs';

const NO_CONTENT = 'HTTP/1.1 204 No Content\r\n\r\n';

/**
 * Receives webhooks and returns 204, with the delay or the failure that the path selects, until it receives `stop`. It does as
 * little work as possible: it shares the CPU with what it measures.
 */
export async function receive() {
  const server = await serveSockets(response);
  const stopped = new Promise((resolve) => process.on('message', (word) => word === 'stop' && resolve()));
  process.send({ url: server.url });
  await stopped;
  server.close();
}

/** Receives webhooks in this process and returns 204 at once; `onData` gets their payloads. */
export function receiveWebhooks(onData) {
  return serveSockets((_head, socket, body) => {
    onData(JSON.parse(body).data);
    socket.write(NO_CONTENT);
  });
}

/** `onRequest(head, socket, body)` for each request. */
async function serveSockets(onRequest) {
  const sockets = new Set();
  const server = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined).on('close', () => sockets.delete(socket));
    takeRequests(socket, onRequest);
  });
  server.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** One request of a connection after the other. */
function takeRequests(socket, onRequest) {
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

function response(head, socket) {
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
