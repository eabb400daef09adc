import { ADDRCONFIG, type LookupAddress, lookup } from 'node:dns';

/**
 * Every address of a host, or an error with a `code`. Whoever waits in line for half of `patienceMs` gets LookupInLine;
 * without it they wait for as long as it takes.
 */
export type ResolveHost = (host: string, patienceMs?: number) => Promise<readonly LookupAddress[]>;

/** It was not even asked for: that hosts of others hang says nothing about this one. */
class LookupInLine extends Error {
  readonly code = 'LOOKUP_IN_LINE';
}

const SLOW_MS = 1_000;
const MAX_UNPROVEN = 2;
/** Whose turn comes later than that has too little of its time left, and would be taken for a receiver that is not there. */
const PATIENCE_SHARE = 0.5;

/**
 * The system's own lookup (hosts file, search domains and all), made safe to share. It runs on libuv's four threads,
 * which files and everybody else's lookups need too: a few listeners whose name servers hang would stop them all. So a
 * host is looked up once at a time however many connections want it, and hosts that were not quick the last time, or
 * are new, have two threads between them; new ones go before those that were slow.
 */
export class HostLookup {
  private readonly underWay = new Map<string, Promise<readonly LookupAddress[]>>();
  private readonly quick = new Set<string>();
  private readonly slow = new Set<string>();
  /** Hosts whose turn has not come, in the order they came, and what lets them go. */
  private readonly inLine = new Map<string, () => void>();
  private unproven = 0;

  constructor(
    private readonly ask: ResolveHost = askSystem,
    private readonly slowMs: number = SLOW_MS,
  ) {}

  readonly resolve: ResolveHost = (host, patienceMs) => {
    let answer = this.underWay.get(host);
    if (answer === undefined) {
      answer = this.look(host).finally(() => this.underWay.delete(host));
      this.underWay.set(host, answer);
    }
    return patienceMs !== undefined && this.inLine.has(host) ? this.soon(host, answer, patienceMs) : answer;
  };

  private look(host: string): Promise<readonly LookupAddress[]> {
    return this.quick.has(host) ? this.timed(host) : this.inTurn(host);
  }

  private async inTurn(host: string): Promise<readonly LookupAddress[]> {
    if (this.unproven >= MAX_UNPROVEN) await new Promise<void>((resolve) => this.inLine.set(host, resolve));
    else this.unproven += 1;
    try {
      return await this.timed(host);
    } finally {
      this.letNextGo();
    }
  }

  private letNextGo(): void {
    const hosts = [...this.inLine.keys()];
    const next = hosts.find((host) => !this.slow.has(host)) ?? hosts[0];
    if (next === undefined) this.unproven -= 1;
    else {
      this.inLine.get(next)!();
      this.inLine.delete(next);
    }
  }

  private async timed(host: string): Promise<readonly LookupAddress[]> {
    const startedAtMs = performance.now();
    const isQuick = () => performance.now() - startedAtMs < this.slowMs;
    this.quick.delete(host);
    try {
      const answer = await this.ask(host);
      if (isQuick()) this.quick.add(host);
      return answer;
    } finally {
      if (isQuick()) this.slow.delete(host);
      else this.slow.add(host);
    }
  }

  private async soon(
    host: string,
    answer: Promise<readonly LookupAddress[]>,
    patienceMs: number,
  ): Promise<readonly LookupAddress[]> {
    let timer: NodeJS.Timeout | undefined;
    const tooLate = new Promise<never>((_, reject) => {
      const giveUp = () => this.inLine.has(host) && reject(new LookupInLine(`${host} was not looked up yet`));
      timer = setTimeout(giveUp, patienceMs * PATIENCE_SHARE);
    });
    try {
      return await Promise.race([answer, tooLate]);
    } finally {
      clearTimeout(timer);
    }
  }
}

function askSystem(host: string): Promise<readonly LookupAddress[]> {
  return new Promise((resolve, reject) => {
    lookup(host, { all: true, hints: ADDRCONFIG }, (error, addresses) =>
      error ? reject(error) : resolve(addresses),
    );
  });
}
