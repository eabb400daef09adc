import type { OnEvent } from '../events.ts';
import type { Api } from '../http/api.ts';

/** What is to become of a message. */
export type Verdict =
  | { readonly kind: 'acknowledge' }
  | { readonly kind: 'retry'; readonly after?: string; readonly reason: string }
  | { readonly kind: 'reject'; readonly reason: string }
  | { readonly kind: 'extend'; readonly by: string };

export interface SettlerOptions {
  readonly listener: string;
  readonly onEvent: OnEvent;
  /** The lease ran out, or somebody else has the message. */
  readonly lost: (lease: string) => void;
  /** The service refuses for good. */
  readonly failed: (error: unknown) => void;
}

/** A limit of the service. */
const MAX_LEASES = 1_000;
/** A lease that cannot be settled for longer than this has probably run out. */
const RETRIES = 8;

/** Sends verdicts; those that arrive while a request is in flight go together with the next one. */
export class Settler {
  private readonly waiting = new Map<string, Verdict>();
  private sending: Promise<void> | undefined;

  constructor(
    private readonly api: Api,
    private readonly options: SettlerOptions,
  ) {}

  /** A later verdict on the same lease replaces one that has not been sent. */
  add(lease: string, verdict: Verdict): void {
    this.waiting.set(lease, verdict);
    this.sending ??= this.sendAll();
  }

  /** Resolves when everything is sent. */
  async flush(): Promise<void> {
    await this.sending;
  }

  private async sendAll(): Promise<void> {
    // Verdicts of the same turn of the event loop go together.
    await Promise.resolve();
    try {
      while (this.waiting.size > 0) await this.send(this.take());
    } catch (error) {
      this.options.failed(error);
    }
    this.sending = undefined;
  }

  private take(): Map<string, Verdict> {
    const taken = new Map([...this.waiting].slice(0, MAX_LEASES));
    for (const lease of taken.keys()) this.waiting.delete(lease);
    return taken;
  }

  private async send(verdicts: ReadonlyMap<string, Verdict>): Promise<void> {
    const { listener, onEvent, lost } = this.options;
    const path = `/v1/listeners/${encodeURIComponent(listener)}/acknowledge`;
    const { leases } = await this.api.call<{ leases: { lease: string; outcome: string }[] }>('POST', path, {
      body: JSON.stringify(bodyOf(verdicts)),
      retries: RETRIES,
    });
    for (const { lease, outcome } of leases) {
      if (outcome === 'done') continue;
      const { kind } = verdicts.get(lease)!;
      const detail = `${kind} of a message of "${listener}": ${outcome}; unless a repeated request recorded it, it is handed out again`;
      onEvent({ event: 'queue.lease-lost', detail });
      lost(lease);
    }
  }
}

/** Pure: the lists of the request. */
export function bodyOf(verdicts: ReadonlyMap<string, Verdict>) {
  const lists: Record<Verdict['kind'], unknown[]> = { acknowledge: [], retry: [], reject: [], extend: [] };
  for (const [lease, { kind, ...more }] of verdicts)
    lists[kind].push(kind === 'acknowledge' ? lease : { lease, ...more });
  return lists;
}
