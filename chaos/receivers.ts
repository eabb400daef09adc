import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { Webhook } from 'standardwebhooks';
import type { Arrival } from './history.ts';

/** How the flaky receiver behaves: always well, failing now and then in every way, or failing always. */
export type ReceiverMode = 'healthy' | 'flaky' | 'down';

/** A command from the fault run to the process of the receivers. */
export interface ReceiverCommand {
  readonly listener: string;
  readonly secret?: string;
  readonly mode?: ReceiverMode;
  readonly end?: true;
}

/*
 * The receivers, in a process of their own that no fault is injected on. Each records every request, whether the official
 * library accepts its signature, and how it responded.
 */
const { CHAOS_RECEIVERS = '', CHAOS_ARRIVALS = '', CHAOS_SEED = '1' } = process.env;
const record = createWriteStream(CHAOS_ARRIVALS);
/** The first one, and the newest one if it was rotated. */
const secrets = new Map<string, { readonly first: Webhook; newest?: Webhook; sinceMs?: number }>();
/** How many requests came per delivery. */
const requestCounts = new Map<string, number>();
let mode: ReceiverMode = 'healthy';
let received = 0;

const FAILURES = ['hang', 'reset', '500', '429', 'garbage', 'drip'] as const;
type Reply = 'ok' | 'refuse' | (typeof FAILURES)[number];

for (const name of CHAOS_RECEIVERS.split(',')) await open(name);
process.send!({ open: true });
process.on('message', ({ listener, secret, ...command }: ReceiverCommand) => {
  if (secret) addSecret(listener, new Webhook(secret));
  if (command.mode) mode = command.mode;
  if (command.end) record.end(() => process.exit(0));
});
process.once('disconnect', () => process.exit(1));

async function open(name: string): Promise<void> {
  const [listener, port] = name.split('=') as [string, string];
  const server = createServer((request, response) => {
    const at = ++received;
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
  const count = (requestCounts.get(delivery) ?? 0) + 1;
  requestCounts.set(delivery, count);
  const reply = replyTo(listener, delivery, count, bytes);
  const body = bytes.toString('utf8');
  const arrival: Arrival = {
    listener,
    at,
    atMs: Date.now(),
    delivery,
    signed: signed(secrets.get(listener)!.first, headers, body),
    ...rotated(listener, headers, body),
    body,
    ce: cloudEventOf(headers),
    reply,
  };
  record.write(`${JSON.stringify(arrival)}\n`);
  respond(reply, response);
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

function addSecret(listener: string, secret: Webhook): void {
  const known = secrets.get(listener);
  if (!known) secrets.set(listener, { first: secret });
  else Object.assign(known, { newest: secret, sinceMs: Date.now() });
}

function rotated(
  listener: string,
  headers: IncomingMessage['headers'],
  body: string,
): Pick<Arrival, 'rotated'> {
  const { newest, sinceMs = 0 } = secrets.get(listener)!;
  if (!newest) return {};
  return { rotated: { forMs: Date.now() - sinceMs, signed: signed(newest, headers, body) } };
}

function signed(secret: Webhook, headers: IncomingMessage['headers'], body: string): string {
  try {
    secret.verify(body, headers as Record<string, string>);
    return 'yes';
  } catch (error) {
    return String(error);
  }
}

/** Random, but the same for the same seed, delivery and number of the request. */
function replyTo(listener: string, delivery: string, count: number, bytes: Buffer): Reply {
  if (listener === 'strict') return isPoisoned(bytes.toString()) ? 'refuse' : 'ok';
  if (listener !== 'flaky' || mode === 'healthy') return 'ok';
  const hash = createHash('md5').update(`${CHAOS_SEED}/${delivery}/${count}`).digest();
  const share = mode === 'down' ? 1 : 0.35;
  return hash[0]! / 256 < share ? FAILURES[hash[1]! % FAILURES.length]! : 'ok';
}

/** A delivery that is refused permanently; its key waits behind it. */
function isPoisoned(body: string): boolean {
  return /"n": \d*77,/.test(body) && !body.includes('"key":"hot"');
}

function respond(reply: Reply, response: ServerResponse): void {
  const { socket } = response;
  if (reply === 'ok') response.writeHead(204).end();
  else if (reply === 'refuse') response.writeHead(400).end('no');
  else if (reply === '500') response.writeHead(500).end('broken');
  else if (reply === '429') response.writeHead(429, { 'retry-after': '1' }).end();
  else if (reply === 'reset') socket?.resetAndDestroy();
  else if (reply === 'garbage') socket?.end('HTTP/1.1 two hundred\r\n\u0000\u0001 :\r\n\r\n');
  else if (reply === 'drip') drip(response);
}

/** The status line of a failure, then an endless body, byte by byte. */
function drip(response: ServerResponse): void {
  response.writeHead(500);
  const timer = setInterval(() => response.write('.'), 50);
  response.on('close', () => clearInterval(timer));
  response.on('error', () => undefined);
}
