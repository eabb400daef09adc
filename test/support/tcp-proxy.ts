import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A wire to PostgreSQL that a test can listen to, hold and cut. */
export interface TcpProxy {
  /** The database's URL, through the proxy. */
  readonly url: string;
  /** Statements that clients have sent so far, as Parse and simple Query messages in the order sent. */
  readonly statements: readonly string[];
  /** Syncs that clients have sent so far. */
  readonly syncs: number;
  /** Times the wire turned around: a client spoke after it had been answered. */
  readonly roundTrips: number;
  /** Resolves when clients have sent `count` statements in all. */
  sent(count: number): Promise<void>;
  /** Keeps the server's answers back until `letAnswers`. */
  holdAnswers(): void;
  letAnswers(): void;
  /** Nothing more gets through on the connections there are, and nobody is told; new ones work. */
  blackHole(): void;
  /** The next connection that sends this statement is black-holed then; resolves when it is. */
  blackHoleAt(statement: string): Promise<void>;
  /** What was black-holed breaks at last. */
  breakHoles(): void;
  /** Breaks the next connection that sends COMMIT: before the server gets it, or before its answer comes back. */
  cutAtCommit(when: 'before' | 'after' | undefined): void;
  /** New connections lead to the server of that URL; those there are stay where they are. */
  switchTo(databaseUrl: string): void;
  close(): Promise<void>;
}

const PARSE = 0x50;
const QUERY = 0x51;
const SYNC = 0x53;

/** `remember`: whether statements are kept; whoever runs for long does without. */
export async function startTcpProxy(databaseUrl: string, { remember = true } = {}): Promise<TcpProxy> {
  let target = new URL(databaseUrl);
  const sockets = new Set<Socket>();
  const statements: string[] = [];
  const waiters = new Set<() => void>();
  let roundTrips = 0;
  let syncs = 0;
  let holding = false;
  let held: (() => void)[] = [];
  let swallowed = new Set<Socket>();
  let cut: 'before' | 'after' | undefined;
  let silence: { readonly statement: string; begun(): void } | undefined;

  // Half open: on a connection that was black-holed not even the end of the other side is answered.
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
      if (silence?.statement === text) {
        swallowed.add(client).add(upstream);
        silence.begun();
        silence = undefined;
      }
      if (!remember) return;
      statements.push(text);
      for (const check of waiters) check();
    });
    let answered = true;
    client.on('data', (chunk) => {
      if (swallowed.has(client)) return;
      if (answered) roundTrips += 1;
      answered = false;
      messages(chunk);
      if (swallowed.has(client)) return;
      if (cutting === 'before') client.destroy();
      else upstream.write(chunk);
    });
    upstream.on('data', (chunk) => {
      if (swallowed.has(upstream)) return;
      if (cutting === 'after') {
        client.destroy();
        return;
      }
      const pass = () => {
        answered = true;
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
        if (!swallowed.has(one)) one.end();
      });
      one.on('close', () => {
        sockets.delete(one);
        if (!swallowed.has(one)) other.destroy();
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
    holdAnswers: () => {
      holding = true;
    },
    letAnswers: () => {
      holding = false;
      for (const pass of held) pass();
      held = [];
    },
    blackHole: () => {
      swallowed = new Set(sockets);
    },
    blackHoleAt: (statement) =>
      new Promise((begun) => {
        silence = { statement, begun };
      }),
    breakHoles: () => {
      for (const socket of swallowed) socket.destroy();
      swallowed.clear();
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

/** Cuts a client's stream into messages; the first one, of the start-up, has no type byte. */
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

/** The statement; of a Parse it stands behind the name, which is told apart by a colon. */
function textOf(type: number, body: Buffer): string {
  const [first = '', second = ''] = body.toString('utf8').split('\0');
  if (type === QUERY) return first;
  return first === '' ? second : `${first}: ${second}`;
}
