import type { Socket } from 'node:net';
import type pg from 'pg';
import { readOnlyError } from './errors.ts';
import type { Primary } from './primary.ts';

type ClientClass = new (config?: pg.ClientConfig) => pg.Client;

/** A client class whose connections lead to the primary of a URL with several hosts; without one, the class itself. */
export function clientOf<Base extends ClientClass>(Base: Base, primary: Primary | undefined): Base {
  if (!primary) return Base;
  const found = primary;
  return class extends (Base as ClientClass) {
    private inRecovery = false;
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
      const server = await found.find(this.withinMs);
      const { connection } = this as unknown as { connection: Wire };
      // Closed while the search went on. Node would open a destroyed socket again.
      if (connection.stream.destroyed) throw new Error('Connection terminated');
      Object.assign(this, { host: server.host, port: server.port });
      // PostgreSQL 14 and newer report it when connecting, without a query.
      connection.on('parameterStatus', ({ parameterName, parameterValue }) => {
        if (STANDBY_PARAMETERS.includes(parameterName)) this.inRecovery ||= parameterValue === 'on';
      });
      this.on('error', () => found.doubt(server));
      try {
        await super.connect();
      } catch (error) {
        found.doubt(server);
        throw error;
      }
      found.track(this, server);
      if (this.inRecovery) {
        found.doubt(server);
        await this.end();
        throw readOnlyError(`${server.address} is not the primary any more`);
      }
      return this;
    }
  } as unknown as Base;
}

const STANDBY_PARAMETERS = ['in_hot_standby', 'default_transaction_read_only'];

interface Wire {
  readonly stream: Socket;
  on(
    event: 'parameterStatus',
    listener: (status: { parameterName: string; parameterValue: string }) => void,
  ): void;
}
