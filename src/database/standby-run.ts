import pg from 'pg';
import { destroyConnection } from './close-client.ts';
import { DrainingPool } from './draining-pool.ts';

/** standbys.run — which run of which server this is: no two servers start in the same microsecond. */
const SERVER_RUN = 'SELECT extract(epoch FROM pg_postmaster_start_time())::text AS run';

/**
 * A standby from its start to its end, with the connections to it. A server that was started again may have replayed less
 * than before; and a host name can resolve to several servers. So nothing that was seen in one run counts in another.
 */
export class StandbyRun {
  readonly pool: DrainingPool;
  private readonly clients = new Set<pg.Client>();

  constructor(
    readonly address: string,
    /** What SERVER_RUN returned. */
    readonly run: string,
    options: pg.PoolConfig,
  ) {
    this.pool = new DrainingPool({
      ...options,
      Client: collecting(options.Client as unknown as ClientClass, this.clients),
      onConnect: (client) => this.verify(client as pg.Client),
    } as pg.PoolConfig);
    this.pool.on('error', () => undefined);
  }

  /** How many requests have no connection yet. */
  get waiting(): number {
    return this.pool.waitingCount;
  }

  /** What runs on it fails at once, so that it can be repeated on the primary. */
  abort(): void {
    for (const client of this.clients) destroyConnection(client);
    void this.pool.end();
  }

  private async verify(client: pg.Client): Promise<void> {
    const { rows } = await client.query(SERVER_RUN);
    if (rows[0].run !== this.run) throw new OtherRunError(this.address);
  }
}

class OtherRunError extends Error {
  /** sqlserver_rejected_establishment_of_sqlconnection */
  readonly code = '08004';

  constructor(address: string) {
    super(`${address} was started again, or resolves to several servers`);
  }
}

type ClientClass = new (config?: pg.ClientConfig) => pg.Client;

/** Also knows the connections that are being opened, which the pool does not show. */
function collecting(Base: ClientClass, clients: Set<pg.Client>): ClientClass {
  return class extends Base {
    constructor(config?: pg.ClientConfig) {
      super(config);
      clients.add(this);
      this.once('end', () => clients.delete(this));
    }
  };
}
