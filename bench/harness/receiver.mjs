import { createServer } from 'node:http';

/** What a receiver that does something with it may take. */
const WORK_MS = 10;

/** Takes webhooks and answers 204, or as badly as the path says; until told to stop. */
export async function receive() {
  const server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
    request.resume();
    request.on('end', () => answer(request.url, response));
  });
  server.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const stopped = new Promise((resolve) => process.on('message', (word) => word === 'stop' && resolve()));
  process.send({ url: `http://127.0.0.1:${server.address().port}` });
  await stopped;
  server.closeAllConnections();
}

function answer(path, response) {
  if (path.startsWith('/hang')) return;
  if (path.startsWith('/reset')) response.socket.resetAndDestroy();
  else if (path.startsWith('/drip')) drip(response.socket);
  else if (path.startsWith('/work')) setTimeout(() => response.writeHead(204).end(), WORK_MS);
  else response.writeHead(204).end();
}

/** A header that never ends. */
function drip(socket) {
  socket.write('HTTP/1.1 200 OK\r\nx-slow: ');
  const timer = setInterval(() => socket.write('z'), 100);
  socket.on('error', () => undefined).on('close', () => clearInterval(timer));
}
