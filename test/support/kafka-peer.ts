import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import type { Certificate } from './certificate.ts';
import { type KafkaLogin, KafkaSession } from './kafka-session.ts';
import { KafkaReader, type KafkaRecord, recordsOf, wire } from './kafka-wire.ts';

const [PRODUCE, METADATA, SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE] = [0, 3, 17, 18, 36];
/** The one version of each request that it speaks. */
const VERSIONS = [
  [PRODUCE, 9],
  [METADATA, 12],
  [SASL_HANDSHAKE, 1],
  [API_VERSIONS, 3],
  [SASL_AUTHENTICATE, 2],
] as const;
const [UNKNOWN_TOPIC, NOT_LEADER, MESSAGE_TOO_LARGE] = [3, 6, 10];
const ALL_IN_SYNC = -1;

export interface KafkaPeerOptions {
  readonly nodes?: number;
  readonly partitions?: number;
  readonly topics?: readonly string[];
  /** Without: nobody has to log in. */
  readonly login?: KafkaLogin;
  /** What it tells clients to connect to. */
  readonly advertisedHost?: string;
  readonly maxMessageBytes?: number;
  readonly certificate?: Certificate;
}

/**
 * Speaks as much of Kafka's protocol as a producer needs, and keeps what it acknowledges in memory. It shows that requests have
 * the form that Kafka documents, and what happens with its responses; not that a Kafka broker behaves like this.
 */
export class KafkaPeer {
  /** By topic and partition. */
  readonly stored = new Map<string, KafkaRecord[]>();
  /** Requests that are not as documented. */
  readonly faults: unknown[] = [];
  produces = 0;
  /** The next responses to produce requests have this error for every partition, and nothing is stored. */
  failWith: number | undefined;
  /** `drop`: nothing is stored, and nothing answered. `keep`: it is stored, and nothing answered. */
  silence: 'drop' | 'keep' | undefined;
  /** Produce requests wait for it. */
  gate: Promise<void> = Promise.resolve();
  leaderOf: (partition: number) => number;
  partitions: number;
  readonly topics: Set<string>;
  private readonly nodes: { server: Server; port: number; sockets: Set<Socket> }[] = [];

  constructor(private readonly options: KafkaPeerOptions = {}) {
    this.topics = new Set(options.topics ?? ['orders']);
    this.partitions = options.partitions ?? 1;
    this.leaderOf = (partition) => partition % (options.nodes ?? 1);
  }

  get port(): number {
    return this.nodes[0]!.port;
  }

  get servers(): string[] {
    const scheme = this.options.certificate ? 'kafka+ssl' : 'kafka';
    return this.nodes.map(({ port }) => `${scheme}://127.0.0.1:${port}`);
  }

  get connections(): number {
    return this.nodes.reduce((sum, { sockets }) => sum + sockets.size, 0);
  }

  /** Everything that a topic has; in order per partition. */
  all(topic = 'orders'): KafkaRecord[] {
    return [...this.stored].flatMap(([name, records]) => (name.startsWith(`${topic}/`) ? records : []));
  }

  async start(): Promise<this> {
    for (let node = 0; node < (this.options.nodes ?? 1); node++) await this.startNode(node);
    return this;
  }

  /** On the port that it had before. */
  async startNode(node: number): Promise<void> {
    const sockets = new Set<Socket>();
    const { certificate } = this.options;
    const accept = (socket: Socket) => {
      sockets.add(socket);
      socket.on('error', () => undefined).on('close', () => sockets.delete(socket));
      this.serve(socket, node);
    };
    const server = certificate ? createTlsServer(certificate, accept) : createServer(accept);
    server.on('tlsClientError', () => undefined);
    server.listen(this.nodes[node]?.port ?? 0, '127.0.0.1');
    await once(server, 'listening');
    this.nodes[node] = { server, sockets, port: (server.address() as AddressInfo).port };
  }

  async stopNode(node: number): Promise<void> {
    const { server, sockets } = this.nodes[node]!;
    for (const socket of sockets) socket.destroy();
    if (!server.listening) return;
    server.close();
    await once(server, 'close');
  }

  async stop(): Promise<void> {
    for (let node = 0; node < this.nodes.length; node++) await this.stopNode(node);
  }

  /** One request after the other, as a broker does. */
  private serve(socket: Socket, node: number): void {
    const session = new KafkaSession(this.options.login);
    let bytes: Buffer = Buffer.alloc(0);
    let turn = Promise.resolve();
    socket.on('data', (chunk: Buffer) => {
      bytes = Buffer.concat([bytes, chunk]);
      while (bytes.length >= 4 && bytes.length >= 4 + bytes.readInt32BE()) {
        const request = bytes.subarray(4, 4 + bytes.readInt32BE());
        bytes = bytes.subarray(4 + request.length);
        turn = turn.then(() => this.respond(request, socket, session, node));
      }
    });
  }

  private async respond(request: Buffer, socket: Socket, session: KafkaSession, node: number): Promise<void> {
    try {
      const response = await this.responseTo(new KafkaReader(request), session, node);
      if (response === undefined || socket.destroyed) return;
      socket.write(Buffer.concat([wire.int32(response.length), response]));
    } catch (fault) {
      this.faults.push(fault);
      socket.destroy();
    }
  }

  private async responseTo(
    request: KafkaReader,
    session: KafkaSession,
    node: number,
  ): Promise<Buffer | undefined> {
    const [api, version, correlation] = [request.int16(), request.int16(), request.int32()];
    request.text();
    const known = VERSIONS.find(([one]) => one === api);
    if (known?.[1] !== version) throw new Error(`request ${api} of version ${version} is not expected`);
    const header = wire.int32(correlation);
    if (api === SASL_HANDSHAKE) return Buffer.concat([header, session.handshake(request)]);
    request.noTags();
    if (api === API_VERSIONS) return Buffer.concat([header, versions()]);
    const flexible = Buffer.concat([header, wire.noTags]);
    if (api === SASL_AUTHENTICATE) return Buffer.concat([flexible, session.authenticate(request)]);
    if (!session.isLoggedIn) throw new LoggedOut();
    if (api === METADATA) return Buffer.concat([flexible, this.metadata(request)]);
    const produced = await this.produce(request, node);
    return produced && Buffer.concat([flexible, produced]);
  }

  private metadata(request: KafkaReader): Buffer {
    const names = request.compactList(() => {
      request.fixed(16);
      const name = request.compactText()!;
      request.noTags();
      return name;
    });
    if (request.bool()) throw new Error('topics must not be created on demand');
    const host = this.options.advertisedHost ?? '127.0.0.1';
    return Buffer.concat([
      wire.int32(0),
      wire.compactList(
        this.nodes.map(({ port }, node) =>
          Buffer.concat([wire.int32(node), wire.compactText(host), wire.int32(port), NULL, wire.noTags]),
        ),
      ),
      wire.compactText('cluster'),
      wire.int32(0),
      wire.compactList(names.map((name) => this.describe(name))),
      wire.noTags,
    ]);
  }

  private describe(name: string): Buffer {
    const isKnown = this.topics.has(name);
    const partitions = Array.from({ length: isKnown ? this.partitions : 0 }, (_, partition) => {
      const leader = wire.int32(this.leaderOf(partition));
      const replicas = wire.compactList([leader]);
      const [ok, epoch, none] = [wire.int16(0), wire.int32(0), wire.compactList([])];
      return Buffer.concat([ok, wire.int32(partition), leader, epoch, replicas, replicas, none, wire.noTags]);
    });
    return Buffer.concat([
      wire.int16(isKnown ? 0 : UNKNOWN_TOPIC),
      wire.compactText(name),
      Buffer.alloc(16),
      wire.int8(0),
      wire.compactList(partitions),
      wire.int32(0),
      wire.noTags,
    ]);
  }

  private async produce(request: KafkaReader, node: number): Promise<Buffer | undefined> {
    this.produces += 1;
    if (request.compactText() !== undefined) throw new Error('a transaction is not expected');
    if (request.int16() !== ALL_IN_SYNC)
      throw new Error('acknowledgement by all in-sync replicas is expected');
    request.int32();
    const topics = request.compactList(() => {
      const topic = request.compactText()!;
      const partitions = request.compactList(() => {
        const one = { partition: request.int32(), bytes: request.compactBytes()! };
        request.noTags();
        return one;
      });
      request.noTags();
      return { topic, partitions };
    });
    await this.gate;
    const { silence } = this;
    const responses = topics.map(({ topic, partitions }) =>
      Buffer.concat([
        wire.compactText(topic),
        wire.compactList(
          partitions.map(({ partition, bytes }) =>
            silence === 'drop' ? NULL : this.store(topic, partition, bytes, node),
          ),
        ),
        wire.noTags,
      ]),
    );
    if (silence) return undefined;
    return Buffer.concat([wire.compactList(responses), wire.int32(0), wire.noTags]);
  }

  private store(topic: string, partition: number, bytes: Buffer, node: number): Buffer {
    const name = `${topic}/${partition}`;
    const records = recordsOf(bytes);
    const known = this.stored.get(name) ?? [];
    const error = this.errorFor(partition, bytes, node);
    if (error === 0) this.stored.set(name, [...known, ...records]);
    return Buffer.concat([
      wire.int32(partition),
      wire.int16(error),
      wire.int64(error === 0 ? BigInt(known.length) : -1n),
      wire.int64(-1n),
      wire.int64(0n),
      wire.compactList([]),
      NULL,
      wire.noTags,
    ]);
  }

  private errorFor(partition: number, bytes: Buffer, node: number): number {
    if (this.failWith !== undefined) return this.failWith;
    if (this.leaderOf(partition) !== node) return NOT_LEADER;
    return bytes.length > (this.options.maxMessageBytes ?? 1_048_576) ? MESSAGE_TOO_LARGE : 0;
  }
}

const NULL = wire.compactText(null);

/** A broker closes the connection of a client that asks before it has logged in. */
class LoggedOut extends Error {}

function versions(): Buffer {
  const list = VERSIONS.map(([api, version]) =>
    Buffer.concat([wire.int16(api), wire.int16(version), wire.int16(version), wire.noTags]),
  );
  return Buffer.concat([wire.int16(0), wire.compactList(list), wire.int32(0), wire.noTags]);
}
