import { Inject, Injectable } from '@nestjs/common';
import { isDatabaseAway } from '../../database/errors.ts';
import { LOG, type Log } from '../../telemetry/logger.ts';
import { Rates } from '../activity/rates.ts';
import { Attention } from '../attention/attention.ts';
import { backlogView } from '../observation/backlog-view.ts';
import { Snapshots } from '../observation/snapshots.ts';

/** Viewers are told of an outage when a look takes longer than this. It continues meanwhile: there are never two. */
const MAX_LOOK_MS = 2_500;

/** What is sent to all viewers, as text of an event stream. */
export interface Frame {
  readonly text: string;
  /** When the database was looked at; undefined if it could not be. */
  readonly observedAt: Date | undefined;
}

interface Look {
  readonly frame: Promise<Frame>;
  readonly lateAtMs: number;
}

/** Makes the events of the live stream, each from one look at the database, whoever else has asked for it in this second. */
@Injectable()
export class LiveFrames {
  private looking: Look | undefined;
  private isAway = false;

  constructor(
    @Inject(LOG) private readonly log: Log,
    private readonly snapshots: Snapshots,
    private readonly attention: Attention,
    private readonly rates: Rates,
  ) {}

  async next(): Promise<Frame> {
    this.looking ??= this.startLook();
    const { frame, lateAtMs } = this.looking;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<Frame>((resolve) => {
      const tell = () => resolve(outage('The database does not respond.'));
      timer = setTimeout(tell, Math.max(0, lateAtMs - performance.now()));
    });
    try {
      return await Promise.race([frame, late]);
    } finally {
      clearTimeout(timer);
    }
  }

  private startLook(): Look {
    const frame = this.look().finally(() => {
      this.looking = undefined;
    });
    return { frame, lateAtMs: performance.now() + MAX_LOOK_MS };
  }

  private async look(): Promise<Frame> {
    try {
      const { at, observed } = this.snapshots.recent();
      const [backlog, attention, rates] = await Promise.all([
        observed,
        this.attention.now(),
        this.rates.now(),
      ]);
      this.isAway = false;
      const data = { at: new Date(), backlog: backlogView(at, backlog), attention, rates };
      return { text: eventOf('snapshot', data), observedAt: at };
    } catch (error) {
      if (!this.isAway)
        this.log.warn({ event: 'live.outage', error }, 'viewers see that the database is away');
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
