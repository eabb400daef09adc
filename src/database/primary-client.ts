import type { Socket } from 'node:net';
import type pg from 'pg';
import type { NamedServer } from '../config/database-url-variable.ts';
import { readOnlyError } from './errors.ts';
import type { Primary } from './primary.ts';

type ClientClass = new (config?: pg.ClientConfig) => pg.Client;

/** A client class that connects to the primary of a URL with several hosts; without one, the class itself. */
export function clientOf<Base extends ClientClass>(Base: Base, primary: Primary | undefined): Base {
  return primary ? (primaryClient(Base, primary) as unknown as Base) : Base;
}

function primaryClient(Base: ClientClass, primary: Primary): ClientClass {
  return class extends Base {
    private readonly withinMs: number | undefined;

    constructor(config?: pg.ClientConfig) {
      super(config);
      this.withinMs = config?.connectionTimeoutMillis || undefined;
    }

    override connect(): Promise<pg.Client>;
    override connect(callback: (error?: Error) => void): void;
    // biome-ignore lint/suspicious/noConfusingVoidType: the signature of node-postgres
    override connect(callback?: (error?: Error) => void): Promise<pg.Client> | void {
      const connected = this.connectToPrimary();
      if (!callback) return connected;
      connected.then(() => callback(), callback);
    }

    private async connectToPrimary(): Promise<pg.Client> {
      const server = await primary.find(this.withinMs);
      const isReadOnly = readOnlyStatus(wireTo(server, this));
      this.on('error', () => primary.doubt(server));
      try {
        await super.connect();
      } catch (error) {
        primary.doubt(server);
        throw error;
      }
      primary.track(this, server);
      if (isReadOnly()) {
        primary.doubt(server);
        await this.end();
        throw readOnlyError(`${server.address} is not the primary any more`);
      }
      return this;
    }
  };
}

const STANDBY_PARAMETERS = ['in_hot_standby', 'default_transaction_read_only'];

interface Wire {
  readonly stream: Socket;
  on(
    event: 'parameterStatus',
    listener: (status: { parameterName: string; parameterValue: string }) => void,
  ): void;
}

function wireTo({ host, port }: NamedServer, client: pg.Client): Wire {
  const { connection } = client as unknown as { connection: Wire };
  // Closed while the search went on. Node would open a destroyed socket again.
  if (connection.stream.destroyed) throw new Error('Connection terminated');
  Object.assign(client, { host, port });
  return connection;
}

/** Whether the server turned out to be a standby. PostgreSQL 14 and newer report it when connecting, without a query. */
function readOnlyStatus(connection: Wire): () => boolean {
  let isReadOnly = false;
  connection.on('parameterStatus', ({ parameterName, parameterValue }) => {
    if (STANDBY_PARAMETERS.includes(parameterName)) isReadOnly ||= parameterValue === 'on';
  });
  return () => isReadOnly;
}
