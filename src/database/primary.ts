import { EventEmitter } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { type NamedServer, namesStandbys, serversOf } from '../config/database-url-variable.ts';
import { closeClient, destroyConnection } from './close-client.ts';
import { probeOptions, queryRole, roleOf } from './probe.ts';

/** A search that found nothing starts over if a caller still waits for it. */
const SEARCH_MS = 2_500;
/** Each server is probed again after this time, which is random: replicas must not probe at the same moment. */
const [MIN_PROBE_MS, MAX_PROBE_MS] = [150, 350];
/** How often the server in use is asked whether it still accepts writes: a machine that is lost closes no connection. */
const [MIN_WATCH_MS, MAX_WATCH_MS] = [400, 600];

/** No server accepts writes; the message says what each of them replied. */
class NoPrimaryError extends Error {
  /** sqlclient_unable_to_establish_sqlconnection */
  readonly code = '08001';
}

/**
 * Which server of a URL with several hosts is the primary. All pools of the process share one search and one watch, so a
 * replica opens one connection to each server per probe, however many callers wait.
 */
export class Primary extends EventEmitter<{ moved: [from: string, to: string] }> {
  private static readonly known = new Map<string, Primary>();
  private current: NamedServer | undefined;
  private last: NamedServer | undefined;
  private searching: Promise<NamedServer | undefined> | undefined;
  private searchOver = new AbortController();
  /** How many callers wait for the search. */
  private waiting = 0;
  /** What each server replied when it was last asked, unless it accepted writes. */
  private readonly replies = new Map<NamedServer, string>();
  private readonly clients = new Map<pg.Client, NamedServer>();
  private watching: Promise<void> | undefined;

  private constructor(private readonly servers: readonly NamedServer[]) {
    super();
    // One for each replica of the process, of which only tests have several.
    this.setMaxListeners(0);
  }

  /** Undefined if the URL names one server, which is then used whatever it is. */
  static of(url: string): Primary | undefined {
    if (!namesStandbys(url)) return undefined;
    const known = Primary.known.get(url) ?? new Primary(serversOf(url)!);
    Primary.known.set(url, known);
    return known;
  }

  /** Resolves with the primary, at once if it is known; throws a NoPrimaryError if there is none for `withinMs`. */
  async find(withinMs = SEARCH_MS): Promise<NamedServer> {
    if (this.current) return this.current;
    const deadline = performance.now() + withinMs;
    this.waiting += 1;
    try {
      while (performance.now() < deadline) {
        const found = await withLimit(deadline - performance.now(), this.search());
        if (found) return found;
      }
    } finally {
      this.waiting -= 1;
      this.endIfUnused();
    }
    throw this.refusal();
  }

  /** A connection to this server broke, or it refused a write: the next connection waits for a search. */
  doubt(server = this.current): void {
    if (server === this.current) this.current = undefined;
  }

  /** The connection is closed when another server turns out to be the primary. */
  track(client: pg.Client, server: NamedServer): void {
    this.clients.set(client, server);
    client.once('end', () => {
      this.clients.delete(client);
      this.endIfUnused();
    });
    this.watching ??= this.watch();
  }

  /** A search ends when no caller waits for it. */
  private endIfUnused(): void {
    if (this.clients.size === 0 && this.waiting === 0) this.searchOver.abort();
  }

  /** Resolves with undefined if no server accepts writes. */
  private search(): Promise<NamedServer | undefined> {
    this.searching ??= this.firstWritable().finally(() => {
      this.searching = undefined;
    });
    return this.searching;
  }

  /** Every server has a loop of its own, because one that does not reply must not delay the others. */
  private async firstWritable(): Promise<NamedServer | undefined> {
    const over = new AbortController();
    this.searchOver = over;
    const timer = setTimeout(() => over.abort(), SEARCH_MS);
    try {
      const found = await Promise.any(this.servers.map((one) => this.untilWritable(one, over.signal)));
      this.moveTo(found);
      return found;
    } catch {
      return undefined;
    } finally {
      clearTimeout(timer);
      over.abort();
    }
  }

  private async untilWritable(server: NamedServer, signal: AbortSignal): Promise<NamedServer> {
    for (;;) {
      try {
        if ((await roleOf(server.url)) === 'primary') return server;
        this.replies.set(server, 'it is a standby, or read-only');
      } catch (error) {
        this.replies.set(server, (error as Error).message || String((error as { code?: string }).code));
      }
      await pause(between(MIN_PROBE_MS, MAX_PROBE_MS), undefined, { signal });
    }
  }

  private refusal(): NoPrimaryError {
    const all = this.servers.map((one) => `${one.address}: ${this.replies.get(one) ?? 'no reply'}`);
    return new NoPrimaryError(`no server accepts writes: ${all.join('; ')}`);
  }

  private moveTo(server: NamedServer): void {
    const from = this.last;
    this.current = server;
    this.last = server;
    if (from === undefined || from === server) return;
    this.emit('moved', from.address, server.address);
    for (const [client, at] of this.clients) if (at !== server) destroyConnection(client);
  }

  /** Runs while there are connections. Only a server that does accept writes takes the place of the one in use. */
  private async watch(): Promise<void> {
    let watched: pg.Client | undefined;
    while (this.clients.size > 0) {
      await pause(between(MIN_WATCH_MS, MAX_WATCH_MS), undefined, { ref: false });
      if (this.clients.size === 0) break;
      const server = this.current;
      try {
        if (server) watched = await this.confirm(server, watched);
        else await this.search();
      } catch {
        watched = undefined;
        this.doubt(server);
        await this.search();
      }
    }
    this.watching = undefined;
    if (watched) void closeClient(watched);
  }

  /** Throws unless the server accepts writes; returns the connection on which it is asked again. */
  private async confirm(server: NamedServer, open: pg.Client | undefined): Promise<pg.Client> {
    const same = open?.port === server.port && open.host === server.host ? open : undefined;
    if (open && !same) void closeClient(open);
    const client = same ?? new pg.Client(probeOptions(server.url));
    try {
      if (!same) await client.on('error', () => undefined).connect();
      if ((await queryRole(client)) === 'primary') return client;
      throw new Error('read-only');
    } catch (error) {
      void closeClient(client);
      throw error;
    }
  }
}

/** Resolves with undefined after `ms`; the promise itself continues. */
function withLimit<T>(ms: number, promise: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout;
  const over = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, Math.max(0, ms), undefined);
  });
  return Promise.race([promise, over]).finally(() => clearTimeout(timer));
}

function between(min: number, max: number): number {
  return min + Math.random() * (max - min);
}
