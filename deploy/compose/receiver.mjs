// A receiver to watch webhooks arrive: one line for each, with the response 204. With WEBHOOK_SECRET it
// verifies them as Standard Webhooks requires and returns 401 if one is forged, altered or too old.
// PORT (8080; 0 takes a free one), HOST (0.0.0.0), WEBHOOK_SECRET (whsec_…; absent: unchecked).
import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';

const MAX_BODY_BYTES = 2 * 1024 * 1024;
const TOLERANCE_SECONDS = 5 * 60;
const signingKey = readSecret(process.env.WEBHOOK_SECRET);

const server = createServer(async (request, response) => {
  if (request.method !== 'POST') return response.writeHead(405, { allow: 'POST' }).end();
  const body = await readBody(request);
  if (!body) return response.destroy();

  const verified = verify(request.headers, body);
  print(request.headers, body, verified);
  response.writeHead(verified === 'no' ? 401 : 204).end();
});

function verify(headers, body) {
  if (!signingKey) return 'unchecked';
  const id = headers['webhook-id'];
  const timestamp = headers['webhook-timestamp'];
  const signatures = headers['webhook-signature'];
  if (!id || !signatures || !/^\d{1,12}$/.test(timestamp ?? '')) return 'no';
  // A signature never expires by itself: without this, a recorded webhook could be replayed for ever.
  if (Math.abs(Date.now() / 1000 - Number(timestamp)) > TOLERANCE_SECONDS) return 'no';

  const digest = createHmac('sha256', signingKey).update(`${id}.${timestamp}.`).update(body).digest('base64');
  // Several while a secret is being rotated: one that fits is enough.
  return signatures.split(' ').some((signature) => isSame(signature, `v1,${digest}`)) ? 'yes' : 'no';
}

/* In constant time: how long a comparison takes must not reveal how much of a guess was right. */
function isSame(given, expected) {
  const [a, b] = [Buffer.from(given), Buffer.from(expected)];
  return a.length === b.length && timingSafeEqual(a, b);
}

/* Quoted, because what is printed comes from outside: a key with a line break stays on its line. */
function print(headers, body, verified) {
  const { type, key } = parse(body);
  const id = headers['webhook-id'];
  const fields = Object.entries({ type, key, id }).map(
    ([name, value]) => `${name}=${JSON.stringify(value ?? null)}`,
  );
  process.stdout.write(`${new Date().toISOString()} ${fields.join(' ')} verified=${verified}\n`);
}

function parse(body) {
  try {
    return JSON.parse(body.toString()) ?? {};
  } catch {
    return {};
  }
}

/* Nothing when the sender went away half way or sends indefinitely. */
async function readBody(request) {
  const chunks = [];
  let bytes = 0;
  try {
    for await (const chunk of request) {
      bytes += chunk.length;
      if (bytes > MAX_BODY_BYTES) return undefined;
      chunks.push(chunk);
    }
  } catch {
    return undefined;
  }
  return Buffer.concat(chunks);
}

function readSecret(secret) {
  if (!secret) return undefined;
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  if (secret.startsWith('whsec_') && key.length > 0) return key;
  process.stderr.write('WEBHOOK_SECRET must be whsec_ followed by base64\n');
  process.exit(1);
}

server.listen(Number(process.env.PORT ?? 8080), process.env.HOST ?? '0.0.0.0', () => {
  process.stdout.write(
    `receiver on port ${server.address().port}, signatures ${signingKey ? 'verified' : 'unchecked'}\n`,
  );
});

// Process 1 of a container gets no default signal handlers: without these a stop takes ten seconds.
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(0));
