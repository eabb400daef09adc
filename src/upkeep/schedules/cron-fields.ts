/** Enough to list every minute and every hour. */
const MAX_LENGTH = 256;
const MAX_QUOTED = 40;

interface Field {
  readonly name: string;
  readonly low: number;
  readonly high: number;
  /** Names for the numbers, from `low` on. */
  readonly names: readonly string[];
  readonly maxStep: number;
  readonly allowed: string;
}

const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
const WEEKDAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];
const MAX_MONTHS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

const FIELDS: readonly Field[] = [
  { name: 'second', low: 0, high: 59, names: [], maxStep: 60, allowed: '0 to 59' },
  { name: 'minute', low: 0, high: 59, names: [], maxStep: 60, allowed: '0 to 59' },
  { name: 'hour', low: 0, high: 23, names: [], maxStep: 24, allowed: '0 to 23' },
  { name: 'day of month', low: 1, high: 31, names: [], maxStep: 31, allowed: '1 to 31' },
  { name: 'month', low: 1, high: 12, names: MONTHS, maxStep: 12, allowed: '1 to 12 or jan to dec' },
  {
    name: 'day of week',
    low: 0,
    high: 7,
    names: WEEKDAYS,
    maxStep: 7,
    allowed: '0 to 7 (0 and 7 are Sunday) or sun to sat',
  },
];

/** `*`, `7`, `1-5`, `mon`, each with or without a step `/2`. */
const ITEM = /^(?:\*|([a-z]+|\d{1,9})(?:-([a-z]+|\d{1,9}))?)(?:\/(\d{1,9}))?$/i;

/** An error in a field. */
class FieldFault extends Error {}

/**
 * The error in a cron expression, undefined if it is valid. Stricter than the library that computes the ticks, which accepts
 * `mon` as a minute, and whose errors do not name the field. The work is bounded by the length of the text.
 */
export function cronFault(cron: string): string | undefined {
  if (cron.length > MAX_LENGTH) return `must not be longer than ${MAX_LENGTH} characters`;
  const texts = cron.trim().split(/\s+/);
  if (texts.length !== 5 && texts.length !== 6)
    return `must have 5 fields, or 6 with seconds first, not ${texts.length}`;
  try {
    const values = FIELDS.slice(-texts.length).map((field, index) => valuesOf(texts[index]!, field));
    const [days, months, weekdays] = values.slice(-3);
    return fires(days!, months!, weekdays!) ? undefined : 'never fires: none of its months has such a day';
  } catch (error) {
    if (error instanceof FieldFault) return error.message;
    throw error;
  }
}

function valuesOf(text: string, field: Field): Set<number> {
  const values = new Set<number>();
  for (const item of text.split(',')) addItem(values, item, field);
  return values;
}

function addItem(values: Set<number>, item: string, field: Field): void {
  const { name, low, high, maxStep, allowed } = field;
  const match = ITEM.exec(item);
  const [, first, last, step = '1'] = match ?? [];
  const from = first === undefined ? low : numberOf(first, field);
  // With a step, a single value means "from there to the end".
  const to = last === undefined ? (first === undefined || match?.[3] ? high : from) : numberOf(last, field);
  if (!match || from === undefined || to === undefined)
    throw new FieldFault(
      `has ${quoted(item)} in its ${name} field; allowed: ${allowed}, as *, a, a-b, */n, a/n or a-b/n, separated by commas`,
    );
  if (from > to) throw new FieldFault(`has ${quoted(item)} in its ${name} field: the range must ascend`);
  if (Number(step) < 1 || Number(step) > maxStep)
    throw new FieldFault(
      `has ${quoted(item)} in its ${name} field; a step must be a whole number, 1 to ${maxStep}`,
    );
  for (let value = from; value <= to; value += Number(step)) values.add(value);
}

function numberOf(text: string, { low, high, names }: Field): number | undefined {
  const index = names.indexOf(text.toLowerCase());
  const value = index >= 0 ? low + index : /^\d+$/.test(text) ? Number(text) : Number.NaN;
  return value >= low && value <= high ? value : undefined;
}

/** If both kinds of days are given, one of them is enough. */
function fires(days: Set<number>, months: Set<number>, weekdays: Set<number>): boolean {
  const everyWeekday = new Set([...weekdays].map((day) => day % 7)).size === 7;
  return !everyWeekday || [...months].some((month) => Math.min(...days) <= MAX_MONTHS[month - 1]!);
}

function quoted(text: string): string {
  return JSON.stringify(text.length > MAX_QUOTED ? `${text.slice(0, MAX_QUOTED)}…` : text);
}
