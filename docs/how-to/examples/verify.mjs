// A webhook receiver that verifies signatures with the official library: npm install standardwebhooks
// WEBHOOK_SECRET (whsec_…, from the response that created the listener), PORT (8080; 0 takes a free one).
import { createServer } from 'node:http';
import { Webhook } from 'standardwebhooks';

const webhook = new Webhook(process.env.WEBHOOK_SECRET);

const server = createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  // The raw bytes: JSON that was parsed and written again may differ, and its signature would not match.
  const body = Buffer.concat(chunks);
  try {
    webhook.verify(body, request.headers);
  } catch {
    response.writeHead(401).end();
    return;
  }
  handle(request.headers['webhook-id'], JSON.parse(body.toString()));
  response.writeHead(204).end();
});

// The same id again is the same delivery again: remember ids together with the effect, and ignore known ones.
function handle(id, { type, key, sequence }) {
  process.stdout.write(`${JSON.stringify({ id, type, key, sequence })}\n`);
}

server.listen(Number(process.env.PORT ?? 8080), '127.0.0.1', () => {
  process.stdout.write(`port ${server.address().port}\n`);
});
