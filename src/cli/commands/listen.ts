import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { CliError, EXIT, usageError } from '../cli-error.ts';
import type { Arguments, Command, Context } from '../command.ts';
import { printable } from '../output.ts';
import { signingKey, type Verdict, verify } from '../webhook-signature.ts';

const MAX_BODY = 32 * 2 ** 20;

interface Arrived {
  readonly at: string;
  readonly id: string;
  readonly verified: Verdict | 'unchecked';
  readonly body: unknown;
}

export const listen: Command = {
  name: 'listen',
  summary: 'Receive webhooks on this machine, verify their signatures and print them.',
  usages: ['[--port 8080] [--secret whsec_…]'],
  options: {
    port: { type: 'string', value: 'number', about: 'Port to listen on (default 8080); 0 picks a free one.' },
    host: { type: 'string', value: 'address', about: 'Address to listen on (default 127.0.0.1).' },
    secret: {
      type: 'string',
      value: 'whsec_…',
      multiple: true,
      about: 'Secret of the listener; without it nothing is verified.',
    },
    status: {
      type: 'string',
      value: 'code',
      about: 'Status to return (default 204); always 401 if the signature is invalid.',
    },
    count: { type: 'string', value: 'number', about: 'Exit after this number of webhooks.' },
  },
  async run(args, context) {
    const server = createServer();
    const done = receive(server, args, context);
    server.listen(numberOf(args, 'port', 8080), args.text('host') ?? '127.0.0.1');
    await Promise.race([once(server, 'listening'), done]);
    const { port, address } = server.address() as AddressInfo;
    const url = `http://${address}:${port}/`;
    context.output.result({ listening: url }, () => `listening at ${url}\n`);
    const exitCode = await done;
    server.closeAllConnections();
    server.close();
    return exitCode;
  },
};

/** Resolves with the exit code after `--count` webhooks or Ctrl-C. */
function receive(server: Server, args: Arguments, { output, stopping }: Context): Promise<number> {
  const keys = args.texts('secret').map(keyOf);
  const status = numberOf(args, 'status', 204);
  const maxCount = numberOf(args, 'count', Number.POSITIVE_INFINITY);
  return new Promise((end, fail) => {
    let count = 0;
    let genuine = true;
    server.on('error', (error) =>
      fail(new CliError(`cannot listen (${(error as { code?: string }).code})`, EXIT.unreachable)),
    );
    stopping.addEventListener('abort', () => end(genuine ? EXIT.ok : EXIT.failed));
    server.on('request', async (request, response) => {
      const body = await bodyOf(request);
      if (!body) return void response.destroy();
      const verdict = keys.length ? verify(request.headers, body, keys, Date.now()) : 'unchecked';
      const refused = verdict !== 'verified' && verdict !== 'unchecked';
      genuine &&= !refused;
      response.writeHead(refused ? 401 : status).end(() => {
        count += 1;
        if (count >= maxCount) end(genuine ? EXIT.ok : EXIT.failed);
      });
      print(request, body, verdict, output);
    });
  });
}

function print(
  request: IncomingMessage,
  body: Buffer,
  verified: Arrived['verified'],
  output: Context['output'],
): void {
  const arrived: Arrived = {
    at: new Date().toISOString(),
    id: String(request.headers['webhook-id'] ?? ''),
    verified,
    body: parsed(body),
  };
  const { type, key } = (arrived.body ?? {}) as { type?: unknown; key?: unknown };
  output.result(arrived, (limit) =>
    [
      arrived.at.slice(11, 23),
      verified.padEnd(10),
      printable(type ?? request.headers['ce-type'], limit),
      `key=${printable(key ?? request.headers['ce-subject'], limit)}`,
      `id=${printable(arrived.id, limit)}`,
      printable(body.toString(), limit),
    ]
      .join('  ')
      .concat('\n'),
  );
}

function keyOf(secret: string): Buffer {
  const key = signingKey(secret);
  if (!key) throw usageError('--secret must be whsec_ followed by base64');
  return key;
}

function numberOf(args: Arguments, name: string, absent: number): number {
  const text = args.text(name);
  if (text === undefined) return absent;
  if (/^\d{1,6}$/.test(text)) return Number(text);
  throw usageError(`--${name} must be a whole number`);
}

/** Returns undefined if the sender disconnects early or the body is too large. */
async function bodyOf(request: IncomingMessage): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of request) {
      bytes += chunk.length;
      if (bytes > MAX_BODY) return undefined;
      chunks.push(chunk);
    }
  } catch {
    return undefined;
  }
  return Buffer.concat(chunks);
}

function parsed(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString());
  } catch {
    return body.toString();
  }
}
