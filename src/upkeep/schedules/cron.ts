import { CronTime } from 'cron';

export type Parsed =
  | { readonly kind: 'valid'; readonly cron: Cron }
  | { readonly kind: 'faulty'; readonly pointer: '/cron' | '/timezone'; readonly detail: string };

/**
 * When a schedule ticks, in the local time of its zone. Ticks within the hour that is skipped in spring become one tick at its
 * end. In the hour that occurs twice in autumn, a time of the day ticks the first time only; a schedule that ticks every hour
 * or more often ticks in both.
 */
export class Cron {
  private constructor(
    private readonly time: CronTime,
    private readonly timezone: string,
  ) {}

  static parse(cron: string, timezone: string): Parsed {
    const fields = cron.trim().split(/\s+/).length;
    if (!isZone(timezone))
      return { kind: 'faulty', pointer: '/timezone', detail: 'must be a time zone such as Europe/Warsaw' };
    const faulty = (detail: string): Parsed => ({ kind: 'faulty', pointer: '/cron', detail });
    if (fields !== 5 && fields !== 6)
      return faulty(`must have 5 fields, or 6 with seconds first, not ${fields}`);
    let parsed: Cron;
    try {
      parsed = new Cron(new CronTime(cron.trim(), timezone), timezone);
    } catch (error) {
      return faulty(`is not a cron expression: ${(error as Error).message}`);
    }
    try {
      parsed.after(new Date());
    } catch {
      return faulty('never fires');
    }
    return { kind: 'valid', cron: parsed };
  }

  /** The first tick after a time. */
  after(time: Date): Date {
    return this.time.getNextDateFrom(time, this.timezone).toJSDate();
  }

  /** The ticks after `from`, up to `to` inclusive, up to `max` of them. */
  between(from: Date, to: Date, max: number): Date[] {
    const ticks: Date[] = [];
    for (let tick = this.after(from); tick <= to && ticks.length < max; tick = this.after(tick)) {
      ticks.push(tick);
    }
    return ticks;
  }

  /** The last tick after `from`, up to `to` inclusive; searched from the end, so that the age of `from` does not matter. */
  last(from: Date, to: Date): Date | undefined {
    for (let spanMs = 60_000; ; spanMs *= 8) {
      const begin = new Date(Math.max(from.getTime(), to.getTime() - spanMs));
      const tick = this.between(begin, to, Number.POSITIVE_INFINITY).at(-1);
      if (tick || begin.getTime() === from.getTime()) return tick;
    }
  }
}

/** Offsets such as +02:00 are refused: they have no daylight saving time. */
function isZone(timezone: string): boolean {
  if (!/^[A-Za-z]/.test(timezone)) return false;
  try {
    new Intl.DateTimeFormat('en', { timeZone: timezone });
    return true;
  } catch {
    return false;
  }
}
