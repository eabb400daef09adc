import type { LookupAddress } from 'node:dns';
import { isIP } from 'node:net';
import {
  type Broker as Address,
  type Callback,
  type CallbackWithPromise,
  type ClusterMetadata,
  Connection,
  GenericError,
  kGetBootstrapConnection,
  kGetConnection,
  kMetadata,
  kPerformWithRetry,
  type MetadataOptions,
  NetworkError,
  Producer,
} from '@platformatic/kafka';
import { type EgressGuard, EgressRefused } from '../../webhooks/egress-guard.ts';
import type { BrokerOf } from '../broker.ts';
import { checkedAddress } from '../server-address.ts';
import { loginOf } from './kafka-login.ts';

type KafkaBroker = BrokerOf<'kafka'>;

export interface ConnectOptions {
  readonly guard: EgressGuard;
  readonly connectMs: number;
  readonly name: string;
}

/** Leaders move; a produce to the wrong one asks anew at once. */
const METADATA_MAX_AGE_MS = 60_000;
const MAX_REQUESTS_IN_FLIGHT = 16;

/**
 * The client without its own pool of connections, which would connect to whatever address a broker names: here every
 * connection, also to brokers that the cluster names, passes the guard. Nothing is retried and no connection is repaired.
 */
export class KafkaProducer extends Producer {
  /** A connection ended, or was too slow: a new producer has to take its place. */
  isEnded = false;
  private readonly opened = new Map<string, Promise<Connection>>();

  constructor(
    private readonly broker: KafkaBroker,
    private readonly connectOptions: ConnectOptions,
  ) {
    super({
      clientId: connectOptions.name,
      bootstrapBrokers: [],
      retries: 0,
      timeout: connectOptions.connectMs,
      metadataMaxAge: METADATA_MAX_AGE_MS,
      autocreateTopics: false,
    });
  }

  /** Connects to all leaders of the topic, so that what fails later has had a connection. */
  async connectToLeaders(): Promise<void> {
    const { topic } = this.broker;
    const { brokers, topics } = await this.metadata({ topics: [topic] });
    const leaders = new Set(topics.get(topic)!.partitions.map(({ leader }) => leader));
    await Promise.all([...leaders].map((leader) => this.connectionTo(brokers.get(leader))));
  }

  partitionsOf(topic: string): number {
    return this.currentMetadata?.topics.get(topic)?.partitionsCount ?? 1;
  }

  /** Without waiting for what is in flight, which fails. */
  end(): void {
    this.isEnded = true;
    for (const connection of this.opened.values()) connection.then(destroy, () => undefined);
  }

  override [kGetConnection](server: Address | undefined, callback: Callback<Connection>): void {
    passOn(this.connectionTo(server), callback);
  }

  override [kGetBootstrapConnection](callback: Callback<Connection>): void {
    passOn(this.firstAvailable(), callback);
  }

  /** The client would throw, where nobody can catch it, on a partition that is not described. */
  override [kMetadata](options: MetadataOptions, callback: CallbackWithPromise<ClusterMetadata>): void {
    super[kMetadata](options, (error, metadata) => {
      const fault = error ?? faultOf(metadata, options.topics);
      if (fault || !metadata) callback(fault ?? new NetworkError('No description of the cluster.'));
      else callback(null, metadata);
    });
  }

  /** The client would throw, where nobody can catch it, on errors that are not of its kind, such as those of its parsers. */
  override [kPerformWithRetry]<Result>(
    operation: string,
    run: (callback: Callback<Result>) => void,
    callback: CallbackWithPromise<Result>,
  ) {
    return super[kPerformWithRetry]<Result>(operation, run, (error, result) =>
      error ? callback(ofClient(error)) : callback(null, result),
    );
  }

  private async firstAvailable(): Promise<Connection> {
    let failure: unknown;
    for (const server of this.broker.servers) {
      try {
        return await this.connectionTo(checkedAddress(server, 'kafka'));
      } catch (error) {
        failure = error;
      }
    }
    throw failure;
  }

  private connectionTo(server: Address | undefined): Promise<Connection> {
    if (!server) return Promise.reject(new NetworkError('The cluster names no address of a leader.'));
    const name = `${server.host}:${server.port}`;
    const known = this.opened.get(name);
    if (known !== undefined) return known;
    const connection = this.dial(server);
    this.opened.set(name, connection);
    connection.catch(() => this.opened.delete(name));
    return connection;
  }

  private async dial({ host, port }: Address): Promise<Connection> {
    const { guard, connectMs } = this.connectOptions;
    let failure: unknown;
    for (const address of await addressesOf(guard, host, port, connectMs)) {
      const connection = this.newConnection(host);
      try {
        await connection.connect(address, port);
        for (const event of ['end', 'close'])
          connection.socket.once(event, () => {
            this.isEnded = true;
          });
        if (this.isEnded) destroy(connection);
        return connection;
      } catch (error) {
        destroy(connection);
        failure = error;
      }
    }
    throw failure;
  }

  private newConnection(host: string): Connection {
    const { connectMs, name } = this.connectOptions;
    const { servers, tls = {}, credentials } = this.broker;
    const sasl = loginOf(this.broker);
    const { certificate, privateKey } = credentials;
    const serverName = tls.serverName ?? (isIP(host) ? undefined : host);
    const connection = new Connection(name, {
      connectTimeout: connectMs,
      requestTimeout: connectMs,
      maxInflights: MAX_REQUESTS_IN_FLIGHT,
      ...(checkedAddress(servers[0]!, 'kafka').tls
        ? {
            tls: {
              ...(tls.ca ? { ca: tls.ca } : {}),
              ...(certificate && privateKey ? { cert: certificate, key: privateKey } : {}),
            },
            ...(serverName ? { tlsServerName: serverName } : {}),
          }
        : {}),
      ...(sasl ? { sasl } : {}),
    });
    // Whoever waits on the connection hears of it, too.
    connection.on('error', () => undefined);
    return connection;
  }
}

/** No second lookup is made, which could be rebound: the client gets an address. */
async function addressesOf(
  guard: EgressGuard,
  host: string,
  port: number,
  timeoutMs: number,
): Promise<readonly string[]> {
  const refusal = guard.refusalOfTarget(host, port);
  if (refusal !== undefined) throw new EgressRefused(refusal);
  if (isIP(host)) return [host];
  return new Promise((resolve, reject) => {
    guard.lookupWithin(timeoutMs)(host, { all: true }, (error, found) => {
      if (error) reject(error);
      else resolve((found as LookupAddress[]).map(({ address }) => address));
    });
  });
}

function passOn(connection: Promise<Connection>, callback: Callback<Connection>): void {
  connection.then(
    (opened) => callback(null, opened),
    (error: Error) => callback(ofClient(error), undefined as never),
  );
}

function ofClient(error: Error): Error {
  return GenericError.isGenericError(error) ? error : new NetworkError(error.message, { cause: error });
}

function faultOf(metadata: ClusterMetadata | undefined, topics: readonly string[] = []): Error | undefined {
  const isWhole = topics.every((name) => {
    const { partitions = [], partitionsCount = 0 } = metadata?.topics.get(name) ?? {};
    return (
      partitionsCount > 0 && Array.from({ length: partitionsCount }, (_, at) => partitions[at]).every(Boolean)
    );
  });
  return isWhole ? undefined : new NetworkError('The cluster does not describe all partitions.');
}

/** `close` alone would wait until everything that was written is sent. */
function destroy(connection: Connection): void {
  connection.close(() => undefined);
  connection.socket?.destroy();
}
