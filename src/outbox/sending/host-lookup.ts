import { ADDRCONFIG, type LookupAddress, lookup } from 'node:dns';

/** Every address of a host, or an error with a `code`. */
export type ResolveHost = (host: string) => Promise<readonly LookupAddress[]>;

const SLOW_MS = 1_000;
const MOST_UNPROVEN = 2;

/**
 * The system's own lookup (hosts file, search domains and all), made safe to share. It runs on libuv's four threads,
 * which files and everybody else's lookups need too: a few listeners whose name servers hang would stop them all. So a
 * host is looked up once at a time however many connections want it, and hosts that were not quick the last time, or
 * are new, have two threads between them.
 */
export class HostLookup {
  private readonly underWay = new Map<string, Promise<readonly LookupAddress[]>>();
  private readonly quick = new Set<string>();
  private readonly waiting: (() => void)[] = [];
  private unproven = 0;

  constructor(private readonly ask: ResolveHost = askSystem) {}

  readonly resolve: ResolveHost = (host) => {
    let answer = this.underWay.get(host);
    if (answer === undefined) {
      answer = this.look(host).finally(() => this.underWay.delete(host));
      this.underWay.set(host, answer);
    }
    return answer;
  };

  private look(host: string): Promise<readonly LookupAddress[]> {
    return this.quick.has(host) ? this.timed(host) : this.inTurn(host);
  }

  private async inTurn(host: string): Promise<readonly LookupAddress[]> {
    if (this.unproven >= MOST_UNPROVEN) await new Promise<void>((resolve) => this.waiting.push(resolve));
    else this.unproven += 1;
    try {
      return await this.timed(host);
    } finally {
      const next = this.waiting.shift();
      if (next) next();
      else this.unproven -= 1;
    }
  }

  private async timed(host: string): Promise<readonly LookupAddress[]> {
    const startedAtMs = performance.now();
    this.quick.delete(host);
    const answer = await this.ask(host);
    if (performance.now() - startedAtMs < SLOW_MS) this.quick.add(host);
    return answer;
  }
}

function askSystem(host: string): Promise<readonly LookupAddress[]> {
  return new Promise((resolve, reject) => {
    lookup(host, { all: true, hints: ADDRCONFIG }, (error, addresses) =>
      error ? reject(error) : resolve(addresses),
    );
  });
}
