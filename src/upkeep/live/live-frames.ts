import { Inject, Injectable } from '@nestjs/common';
import { isDatabaseAway } from '../../database/errors.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import { Rates } from '../activity/rates.ts';
import { Attention } from '../attention/attention.ts';
import { backlogView } from '../observation/backlog-view.ts';
import { Snapshots } from '../observation/snapshots.ts';
import { LiveStore } from './live-store.ts';

/** Viewers see an outage when a read takes longer than this. It continues meanwhile: there are never two. */
const MAX_READ_MS = 2_500;

/** A viewer that connects shortly after a read gets what was read. */
const MAX_AGE_MS = 1_000;

/** What is sent to all viewers, as text of an event stream. */
export interface Frame {
  readonly text: string;
  /** When the database was read; undefined if it could not be. */
  readonly observedAt: Date | undefined;
}

interface Reading {
  readonly frame: Promise<Frame>;
  readonly lateAtMs: number;
}

/** Makes the events of the live stream; all viewers share one round trip to the database per second. */
@Injectable()
export class LiveFrames {
  private reading: Reading | undefined;
  private last: Frame | undefined;
  private isAway = false;

  constructor(
    @Inject(LOG) private readonly log: Log,
    private readonly store: LiveStore,
    private readonly snapshots: Snapshots,
    private readonly attention: Attention,
    private readonly rates: Rates,
  ) {}

  /** `maxAgeMs`: how old what was read may be. */
  async next(maxAgeMs = MAX_AGE_MS): Promise<Frame> {
    const { last } = this;
    if (last?.observedAt && Date.now() - last.observedAt.getTime() < maxAgeMs) return last;
    this.reading ??= this.startReading();
    const { frame, lateAtMs } = this.reading;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<Frame>((resolve) => {
      const report = () => resolve(outage('The database does not respond.'));
      timer = setTimeout(report, Math.max(0, lateAtMs - performance.now()));
    });
    try {
      return await Promise.race([frame, late]);
    } finally {
      clearTimeout(timer);
    }
  }

  private startReading(): Reading {
    const frame = this.read().finally(() => {
      this.reading = undefined;
    });
    void frame.then((read) => {
      this.last = read;
    });
    return { frame, lateAtMs: performance.now() + MAX_READ_MS };
  }

  private async read(): Promise<Frame> {
    try {
      const at = new Date();
      const { observed, findings, window } = await this.store.read(this.rates.due());
      const snapshot = this.snapshots.keep({ at, observed: Promise.resolve(observed) });
      const attention = await this.attention.keep(snapshot, Promise.resolve(findings));
      this.isAway = false;
      const rates = this.rates.now(window);
      const data = { at: new Date(), backlog: backlogView(at, observed), attention, rates };
      return { text: eventOf('snapshot', data), observedAt: at };
    } catch (error) {
      if (!this.isAway)
        this.log.warn(
          { event: 'live.outage', error },
          'the database cannot be read; the live stream reports it',
        );
      this.isAway = true;
      return outage(
        isDatabaseAway(error)
          ? 'The database cannot be reached.'
          : 'The backlog cannot be read; see the log.',
      );
    }
  }
}

function outage(detail: string): Frame {
  return { text: eventOf('outage', { at: new Date(), detail }), observedAt: undefined };
}

/** JSON has no line breaks, so it is one line of data. */
function eventOf(name: string, data: object): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
}
