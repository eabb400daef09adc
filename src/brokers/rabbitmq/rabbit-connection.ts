import { Connection, type ConnectionOptions } from 'rabbitmq-client';
import { EgressRefused } from '../../webhooks/egress-guard.ts';
import type { BrokerCredentials, BrokerTls } from '../broker-definition.ts';
import { checkedAddress, type ServerAddress } from '../server-address.ts';
import type { BrokerAccess, ConnectOptions } from '../sink.ts';

export interface RabbitAccess extends BrokerAccess {
  readonly vhost?: string;
}

const HEARTBEAT_SECONDS = 20;

/** A connection to the first of the servers that is there. It is not repaired when it ends: see `end`. */
export async function rabbitConnection(rabbit: RabbitAccess, options: ConnectOptions): Promise<Connection> {
  let failure: unknown;
  for (const server of rabbit.servers) {
    try {
      return await open(checkedAddress(server, 'rabbitmq'), rabbit, options);
    } catch (error) {
      failure = error;
    }
  }
  throw failure;
}

async function open(
  { host, port, tls }: ServerAddress,
  rabbit: RabbitAccess,
  { guard, connectMs, name }: ConnectOptions,
): Promise<Connection> {
  // No lookup is made for an address: it is checked here, names by the lookup of the connection.
  const refusal = guard.refusalOfTarget(host, port);
  if (refusal !== undefined) throw new EgressRefused(refusal);
  const { username, password } = rabbit.credentials;
  const connection = new Connection({
    hostname: host,
    port,
    vhost: rabbit.vhost ?? '/',
    ...(username ? { username, password: password ?? '' } : {}),
    socket: { lookup: guard.lookupWithin(connectMs), autoSelectFamily: true } as ConnectionOptions['socket'] &
      object,
    tls: tls ? tlsOf(rabbit.tls, rabbit.credentials) : false,
    noDelay: true,
    heartbeat: HEARTBEAT_SECONDS,
    connectionTimeout: connectMs,
    acquireTimeout: connectMs,
    connectionName: name,
  });
  return new Promise((resolve, reject) => {
    connection.once('connection', () => resolve(connection));
    // The client would connect again on its own; the next delivery does, through the circuit.
    connection.on('error', (error) => {
      connection.unsafeDestroy();
      reject(error);
    });
  });
}

function tlsOf({ ca, serverName }: BrokerTls = {}, { certificate, privateKey }: BrokerCredentials) {
  return {
    ...(ca ? { ca } : {}),
    ...(serverName ? { servername: serverName } : {}),
    ...(certificate && privateKey ? { cert: certificate, key: privateKey } : {}),
  };
}
