/** Waits between two attempts: doubled each time. Random, so that the tabs of a replica that stopped do not come at once. */
const FIRST_WAIT_MS = 1_000;
const MAX_WAIT_MS = 15_000;

export interface StreamEvents {
  readonly snapshot: (data: string) => void;
  readonly outage: (data: string) => void;
  /** The service, or a proxy, did not open the stream. The next attempt comes after this. */
  readonly refused: () => Promise<void>;
}

/** How long to wait after so many refusals in a row. */
export function waitAfter(refusals: number, random = Math.random()): number {
  const max = Math.min(MAX_WAIT_MS, FIRST_WAIT_MS * 2 ** refusals);
  return max * (0.5 + random / 2);
}

/** Keeps one stream open until it is closed: there is never a second one, nor an attempt after the end. */
export class Stream {
  private source: EventSource | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private refusals = 0;
  private isClosed = false;

  constructor(
    private readonly url: string,
    private readonly events: StreamEvents,
  ) {
    this.connect();
  }

  close(): void {
    this.isClosed = true;
    clearTimeout(this.timer);
    this.source?.close();
  }

  private connect(): void {
    const source = new EventSource(this.url);
    this.source = source;
    const heard = (take: (data: string) => void) => (event: MessageEvent<string>) => {
      this.refusals = 0;
      take(event.data);
    };
    source.addEventListener('snapshot', heard(this.events.snapshot));
    source.addEventListener('outage', heard(this.events.outage));
    source.addEventListener('error', () => {
      // The browser itself reconnects only after a broken connection, not after a refusal.
      if (source.readyState === EventSource.CLOSED) this.wait();
    });
  }

  private wait(): void {
    if (this.isClosed) return;
    this.timer = setTimeout(
      async () => {
        await this.events.refused();
        if (!this.isClosed) this.connect();
      },
      waitAfter(this.refusals++),
    );
  }
}
