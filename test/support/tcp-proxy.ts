import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A TCP proxy to PostgreSQL with which a test can read, delay and cut the traffic. */
export interface TcpProxy {
  /** The database's URL, through the proxy. */
  readonly url: string;
  /** Statements that clients have sent so far, as Parse and simple Query messages in the order sent. */
  readonly statements: readonly string[];
  /** Syncs that clients have sent so far. */
  readonly syncs: number;
  /** Round trips: how many times a client sent something after it had received a response. */
  readonly roundTrips: number;
  /** Resolves when clients have sent `count` statements in all. */
  sent(count: number): Promise<void>;
  /** Delays the server's responses until `releaseResponses`. */
  holdResponses(): void;
  releaseResponses(): void;
  /** Drops all further traffic of the existing connections without closing them; new ones work. */
  blackHole(): void;
  /** Black-holes the next connection that sends this statement; resolves when that has happened. */
  blackHoleAt(statement: string): Promise<void>;
  /** Closes the black-holed connections. */
  closeBlackHoles(): void;
  /** Cuts the next connection that sends COMMIT: before the server receives it, or before its response is forwarded. */
  cutAtCommit(when: 'before' | 'after' | undefined): void;
  /** New connections go to the server of that URL; existing ones are not affected. */
  switchTo(databaseUrl: string): void;
  close(): Promise<void>;
}

const PARSE = 0x50;
const QUERY = 0x51;
const SYNC = 0x53;

/** `remember`: whether statements are recorded; off in long runs. */
export async function startTcpProxy(databaseUrl: string, { remember = true } = {}): Promise<TcpProxy> {
  let target = new URL(databaseUrl);
  const sockets = new Set<Socket>();
  const statements: string[] = [];
  const waiters = new Set<() => void>();
  let roundTrips = 0;
  let syncs = 0;
  let holding = false;
  let held: (() => void)[] = [];
  let blackHoled = new Set<Socket>();
  let cut: 'before' | 'after' | undefined;
  let blackHoleTrigger: { readonly statement: string; begun(): void } | undefined;

  // Half open: a black-holed connection does not even respond to the FIN of the other side.
  const server = createServer({ allowHalfOpen: true }, (client) => {
    const upstream = connect({
      port: Number(target.port || 5432),
      host: target.hostname,
      allowHalfOpen: true,
    });
    let cutting: 'before' | 'after' | undefined;
    const messages = frontendMessages((type, text) => {
      if (type === SYNC) syncs += 1;
      if (type !== PARSE && type !== QUERY) return;
      if (cut && text === 'COMMIT') {
        cutting = cut;
        cut = undefined;
      }
      if (blackHoleTrigger?.statement === text) {
        blackHoled.add(client).add(upstream);
        blackHoleTrigger.begun();
        blackHoleTrigger = undefined;
      }
      if (!remember) return;
      statements.push(text);
      for (const check of waiters) check();
    });
    let replied = true;
    client.on('data', (chunk) => {
      if (blackHoled.has(client)) return;
      if (replied) roundTrips += 1;
      replied = false;
      messages(chunk);
      if (blackHoled.has(client)) return;
      if (cutting === 'before') client.destroy();
      else upstream.write(chunk);
    });
    upstream.on('data', (chunk) => {
      if (blackHoled.has(upstream)) return;
      if (cutting === 'after') {
        client.destroy();
        return;
      }
      const pass = () => {
        replied = true;
        client.write(chunk);
      };
      if (holding) held.push(pass);
      else pass();
    });
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(one);
      one.setNoDelay(true);
      one.on('error', () => undefined);
      one.on('end', () => {
        if (!blackHoled.has(one)) one.end();
      });
      one.on('close', () => {
        sockets.delete(one);
        if (!blackHoled.has(one)) other.destroy();
      });
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = new URL(databaseUrl);
  url.hostname = '127.0.0.1';
  url.port = String((server.address() as AddressInfo).port);

  return {
    url: url.href,
    statements,
    get roundTrips() {
      return roundTrips;
    },
    get syncs() {
      return syncs;
    },
    sent: (count) =>
      new Promise((resolve) => {
        const check = () => {
          if (statements.length < count) return;
          waiters.delete(check);
          resolve();
        };
        waiters.add(check);
        check();
      }),
    holdResponses: () => {
      holding = true;
    },
    releaseResponses: () => {
      holding = false;
      for (const pass of held) pass();
      held = [];
    },
    blackHole: () => {
      blackHoled = new Set(sockets);
    },
    blackHoleAt: (statement) =>
      new Promise((begun) => {
        blackHoleTrigger = { statement, begun };
      }),
    closeBlackHoles: () => {
      for (const socket of blackHoled) socket.destroy();
      blackHoled.clear();
    },
    cutAtCommit: (when) => {
      cut = when;
    },
    switchTo: (databaseUrl) => {
      target = new URL(databaseUrl);
    },
    close: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Splits a client's stream into messages; the startup message has no type byte. */
function frontendMessages(onMessage: (type: number, text: string) => void): (chunk: Buffer) => void {
  let buffer = Buffer.alloc(0);
  let started = false;
  return (chunk) => {
    buffer = Buffer.concat([buffer, chunk]);
    for (;;) {
      const offset = started ? 1 : 0;
      if (buffer.length < offset + 4) return;
      const length = offset + buffer.readUInt32BE(offset);
      if (buffer.length < length) return;
      if (started) onMessage(buffer[0]!, textOf(buffer[0]!, buffer.subarray(5, length)));
      started = true;
      buffer = buffer.subarray(length);
    }
  };
}

/** The text of the statement; a named Parse is returned as `name: text`. */
function textOf(type: number, body: Buffer): string {
  const [first = '', second = ''] = body.toString('utf8').split('\0');
  if (type === QUERY) return first;
  return first === '' ? second : `${first}: ${second}`;
}
