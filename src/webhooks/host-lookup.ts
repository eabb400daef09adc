import { ADDRCONFIG, type LookupAddress, lookup } from 'node:dns';

/**
 * Every address of a host, or an error with a `code`. A caller that is queued for half of `timeoutMs` gets LookupQueued;
 * without a timeout it waits as long as it takes.
 */
export type ResolveHost = (host: string, timeoutMs?: number) => Promise<readonly LookupAddress[]>;

/** The lookup was not made: that lookups of other hosts hang shows nothing about this one. */
class LookupQueued extends Error {
  readonly code = 'LOOKUP_QUEUED';
}

const SLOW_MS = 1_000;
const MAX_UNPROVEN = 2;
/** A lookup that starts later has too little time left, and the timeout would count as an attempt. */
const MAX_QUEUED_SHARE = 0.5;

/**
 * The system's own lookup (with hosts file and search domains), made safe to share. It runs on libuv's four threads, which
 * file access and all other lookups need too: a few listeners whose name servers hang would block everything. So a host has
 * one lookup at a time, however many connections wait for it, and hosts that are new or were slow the last time share two
 * threads; new ones go first.
 */
export class HostLookup {
  private readonly inFlight = new Map<string, Promise<readonly LookupAddress[]>>();
  private readonly quick = new Set<string>();
  private readonly slow = new Set<string>();
  /** Hosts whose lookup has not started, in order, each with the function that starts it. */
  private readonly queue = new Map<string, () => void>();
  private unproven = 0;

  constructor(
    private readonly lookup: ResolveHost = systemLookup,
    private readonly slowMs: number = SLOW_MS,
  ) {}

  readonly resolve: ResolveHost = (host, timeoutMs) => {
    let addresses = this.inFlight.get(host);
    if (addresses === undefined) {
      addresses = this.start(host).finally(() => this.inFlight.delete(host));
      this.inFlight.set(host, addresses);
    }
    return timeoutMs !== undefined && this.queue.has(host)
      ? this.orQueued(host, addresses, timeoutMs)
      : addresses;
  };

  private start(host: string): Promise<readonly LookupAddress[]> {
    return this.quick.has(host) ? this.timed(host) : this.inTurn(host);
  }

  private async inTurn(host: string): Promise<readonly LookupAddress[]> {
    if (this.unproven >= MAX_UNPROVEN) await new Promise<void>((resolve) => this.queue.set(host, resolve));
    else this.unproven += 1;
    try {
      return await this.timed(host);
    } finally {
      this.startNext();
    }
  }

  private startNext(): void {
    const hosts = [...this.queue.keys()];
    const next = hosts.find((host) => !this.slow.has(host)) ?? hosts[0];
    if (next === undefined) this.unproven -= 1;
    else {
      this.queue.get(next)!();
      this.queue.delete(next);
    }
  }

  private async timed(host: string): Promise<readonly LookupAddress[]> {
    const startedAtMs = performance.now();
    const isQuick = () => performance.now() - startedAtMs < this.slowMs;
    this.quick.delete(host);
    try {
      const addresses = await this.lookup(host);
      if (isQuick()) this.quick.add(host);
      return addresses;
    } finally {
      if (isQuick()) this.slow.delete(host);
      else this.slow.add(host);
    }
  }

  private async orQueued(
    host: string,
    addresses: Promise<readonly LookupAddress[]>,
    timeoutMs: number,
  ): Promise<readonly LookupAddress[]> {
    let timer: NodeJS.Timeout | undefined;
    const queuedTooLong = new Promise<never>((_, reject) => {
      const giveUp = () => this.queue.has(host) && reject(new LookupQueued(`${host} was not looked up yet`));
      timer = setTimeout(giveUp, timeoutMs * MAX_QUEUED_SHARE);
    });
    try {
      return await Promise.race([addresses, queuedTooLong]);
    } finally {
      clearTimeout(timer);
    }
  }
}

function systemLookup(host: string): Promise<readonly LookupAddress[]> {
  return new Promise((resolve, reject) => {
    lookup(host, { all: true, hints: ADDRCONFIG }, (error, addresses) =>
      error ? reject(error) : resolve(addresses),
    );
  });
}
