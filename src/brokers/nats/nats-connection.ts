import { isIP } from 'node:net';
import {
  type Authenticator,
  type ConnectionOptions,
  credsAuthenticator,
  type NatsConnection,
  NatsConnectionImpl,
  setTransportFactory,
} from '@nats-io/transport-node';
import { NodeTransport } from '@nats-io/transport-node/lib/node_transport.js';
import { guardedSocket } from '../../webhooks/egress-guard.ts';
import type { BrokerCredentials, BrokerTls } from '../broker-definition.ts';
import { checkedAddress } from '../server-address.ts';
import type { BrokerAccess, ConnectOptions } from '../sink.ts';

interface GuardedOptions extends ConnectionOptions {
  readonly egress: Pick<ConnectOptions, 'guard' | 'connectMs'>;
}

/**
 * A connection to the first of the servers that is there. Without the client's own reconnecting and without the servers that
 * a cluster names: every connection passes the guard, and a connection that ended is replaced by the next delivery.
 */
export async function natsConnection(
  { servers, tls, credentials }: BrokerAccess,
  { guard, connectMs, name }: ConnectOptions,
): Promise<NatsConnection> {
  setTransportFactory({ factory: () => new GuardedTransport() });
  const options: GuardedOptions = {
    egress: { guard, connectMs },
    servers: servers.map(hostAndPort),
    noRandomize: true,
    reconnect: false,
    ignoreClusterUpdates: true,
    resolve: false,
    timeout: connectMs,
    name,
    ...(needsTls(servers) || tls || credentials.certificate ? { tls: tlsOf(tls, credentials) } : {}),
    ...loginOf(credentials),
  };
  return NatsConnectionImpl.connect(options);
}

function hostAndPort(server: string): string {
  const { host, port } = checkedAddress(server, 'nats');
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** With the option `tls` the client refuses a server without TLS. */
function needsTls(servers: readonly string[]): boolean {
  return servers.some((server) => checkedAddress(server, 'nats').tls);
}

function tlsOf({ ca, serverName }: BrokerTls = {}, { certificate, privateKey }: BrokerCredentials) {
  return {
    ...(ca ? { ca } : {}),
    ...(serverName ? { servername: serverName } : {}),
    ...(certificate && privateKey ? { cert: certificate, key: privateKey } : {}),
  };
}

function loginOf({ username, password, token, creds }: BrokerCredentials) {
  if (creds) return { authenticator: credsAuthenticator(Buffer.from(creds)) satisfies Authenticator };
  if (token) return { token };
  return username ? { user: username, pass: password ?? '' } : {};
}

/** Connects past no guard: the client's own transport would resolve and dial any address. */
class GuardedTransport extends NodeTransport {
  override async dial({ hostname, port }: { hostname: string; port: number }) {
    const { guard, connectMs } = (this.options as GuardedOptions).egress;
    if (isIP(hostname) === 0) this.tlsName ||= hostname;
    return guardedSocket(guard, hostname, port, connectMs);
  }
}
