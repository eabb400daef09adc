const MAX_MS = 24 * 3_600_000;
const SECONDS = /^[+-]?\d{1,15}(?:\.\d{0,9})?$/;

/** RFC 9110's three date formats. Date.parse alone accepts almost anything: it reads "retry 5" as May 2001. */
const DAY = '(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)';
const MONTH = '(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)';
const TIME = '\\d\\d:\\d\\d:\\d\\d';
const IMF_FIXDATE = new RegExp(`^${DAY}, \\d\\d ${MONTH} \\d{4} ${TIME} GMT$`);
const RFC_850 = new RegExp(`^${DAY}[a-z]{3,6}, \\d\\d-${MONTH}-\\d\\d ${TIME} GMT$`);
const ASCTIME = new RegExp(`^${DAY} ${MONTH} [ \\d]\\d ${TIME} \\d{4}$`);

/**
 * How long the receiver asks to wait: at most 24 hours, 0 for a time in the past, undefined for a value that is neither
 * seconds nor a date. A date is compared with the response's own `Date` if there is one: clocks differ.
 */
export function parseRetryAfter(
  retryAfter: string | undefined,
  date: string | undefined,
  nowMs: number = Date.now(),
): number | undefined {
  if (retryAfter === undefined) return undefined;
  const text = retryAfter.trim();
  const waitMs = SECONDS.test(text) ? Number(text) * 1_000 : untilDate(text, date, nowMs);
  return waitMs === undefined ? undefined : Math.round(Math.min(Math.max(waitMs, 0), MAX_MS));
}

function untilDate(text: string, date: string | undefined, nowMs: number): number | undefined {
  const then = parseHttpDate(text);
  return then === undefined ? undefined : then - (parseHttpDate(date ?? '') ?? nowMs);
}

function parseHttpDate(text: string): number | undefined {
  const known = IMF_FIXDATE.test(text) || RFC_850.test(text);
  const ms = known ? Date.parse(text) : ASCTIME.test(text) ? Date.parse(`${text} GMT`) : Number.NaN;
  return Number.isNaN(ms) ? undefined : ms;
}
