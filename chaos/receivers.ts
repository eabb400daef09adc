import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { Webhook } from 'standardwebhooks';
import type { Arrival } from './history.ts';
import type { Mood, Receiving } from './receiving.ts';

/*
 * The receivers, in a process of their own, outside of everything that is struck. Each writes down what came, whether
 * the official library accepts its signature, and what it answered.
 */
const { CHAOS_RECEIVERS = '', CHAOS_ARRIVALS = '', CHAOS_SEED = '1' } = process.env;
const written = createWriteStream(CHAOS_ARRIVALS);
const secrets = new Map<string, Webhook>();
/** How often each delivery came. */
const times = new Map<string, number>();
let mood: Mood = 'fair';
let order = 0;

const BAD_WAYS = ['hang', 'reset', '500', '429', 'garbage', 'drip'] as const;
type Answer = 'ok' | 'refuse' | (typeof BAD_WAYS)[number];

for (const name of CHAOS_RECEIVERS.split(',')) await open(name);
process.send!({ open: true });
process.on('message', (told: Receiving) => {
  if (told.secret) secrets.set(told.listener, new Webhook(told.secret));
  if (told.mood) mood = told.mood;
  if (told.end) written.end(() => process.exit(0));
});
process.once('disconnect', () => process.exit(1));

async function open(name: string): Promise<void> {
  const [listener, port] = name.split('=') as [string, string];
  const server = createServer((request, response) => {
    const at = ++order;
    const chunks: Buffer[] = [];
    request.on('data', (chunk) => chunks.push(chunk));
    request.on('error', () => undefined);
    request.on('end', () => receive(listener, at, request, Buffer.concat(chunks), response));
  });
  server.keepAliveTimeout = 30_000;
  await new Promise<void>((resolve) => server.listen(Number(port), '127.0.0.1', resolve));
}

function receive(
  listener: string,
  at: number,
  { headers }: IncomingMessage,
  bytes: Buffer,
  response: ServerResponse,
): void {
  const delivery = String(headers['webhook-id']);
  const time = (times.get(delivery) ?? 0) + 1;
  times.set(delivery, time);
  const answer = answerTo(listener, delivery, time, bytes);
  const body = bytes.toString('utf8');
  const arrival: Arrival = {
    listener,
    at,
    atMs: Date.now(),
    delivery,
    signed: signed(listener, headers, body),
    body,
    ce: cloudEventOf(headers),
    answer,
  };
  written.write(`${JSON.stringify(arrival)}\n`);
  respond(answer, response);
}

function cloudEventOf(headers: IncomingMessage['headers']): Arrival['ce'] {
  if (headers['ce-id'] === undefined) return undefined;
  return {
    id: header(headers, 'ce-id'),
    type: header(headers, 'ce-type'),
    key: header(headers, 'ce-subject'),
    sequence: Number(headers['ce-sequence']),
  };
}

function header(headers: IncomingMessage['headers'], name: string): string {
  return decodeURIComponent(String(headers[name]));
}

function signed(listener: string, headers: IncomingMessage['headers'], body: string): string {
  try {
    secrets.get(listener)!.verify(body, headers as Record<string, string>);
    return 'yes';
  } catch (error) {
    return String(error);
  }
}

/** By chance, but the same for the same seed, delivery and time it comes. */
function answerTo(listener: string, delivery: string, time: number, bytes: Buffer): Answer {
  if (listener === 'strict') return isDisliked(bytes.toString()) ? 'refuse' : 'ok';
  if (listener !== 'moody' || mood === 'fair') return 'ok';
  const hash = createHash('md5').update(`${CHAOS_SEED}/${delivery}/${time}`).digest();
  const share = mood === 'down' ? 1 : 0.35;
  return hash[0]! / 256 < share ? BAD_WAYS[hash[1]! % BAD_WAYS.length]! : 'ok';
}

/** A poisoned delivery: refused for good, and its key waits behind it. */
function isDisliked(body: string): boolean {
  return /"n": \d*77,/.test(body) && !body.includes('"key":"hot"');
}

function respond(answer: Answer, response: ServerResponse): void {
  const { socket } = response;
  if (answer === 'ok') response.writeHead(204).end();
  else if (answer === 'refuse') response.writeHead(400).end('no');
  else if (answer === '500') response.writeHead(500).end('broken');
  else if (answer === '429') response.writeHead(429, { 'retry-after': '1' }).end();
  else if (answer === 'reset') socket?.resetAndDestroy();
  else if (answer === 'garbage') socket?.end('HTTP/1.1 two hundred\r\n\u0000\u0001 :\r\n\r\n');
  else if (answer === 'drip') drip(response);
}

/** A status line of a failure, then its body byte by byte, for ever. */
function drip(response: ServerResponse): void {
  response.writeHead(500);
  const timer = setInterval(() => response.write('.'), 50);
  response.on('close', () => clearInterval(timer));
  response.on('error', () => undefined);
}
