/** A cron expression in words; what is too intricate for a sentence stays as it is. Pure. */

const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday'];
const MONTHS = [
  'January',
  'February',
  'March',
  'April',
  'May',
  'June',
  'July',
  'August',
  'September',
  'October',
  'November',
  'December',
];

export function cronWords(cron: string): string {
  const fields = cron.trim().split(/\s+/);
  // Six fields begin with seconds.
  const [minute, hour, day, month, weekday] = fields.length === 6 ? fields.slice(1) : fields;
  if (fields.length === 6 && fields[0] !== '0') return cron;
  if (
    minute === undefined ||
    hour === undefined ||
    day === undefined ||
    month === undefined ||
    weekday === undefined
  )
    return cron;
  const time = timeWords(minute, hour);
  const date = dateWords(day, month, weekday);
  if (time === undefined || date === undefined) return cron;
  return [time, date].filter(Boolean).join(' ');
}

function timeWords(minute: string, hour: string): string | undefined {
  const step = /^(?:\*|0)\/(\d+)$/.exec(minute)?.[1];
  if (hour === '*') {
    if (minute === '*' || step === '1') return 'every minute';
    if (step) return `every ${step} minutes`;
    if (isNumber(minute)) return minute === '0' ? 'every hour' : `every hour at minute ${Number(minute)}`;
    return undefined;
  }
  const hourStep = /^(?:\*|0)\/(\d+)$/.exec(hour)?.[1];
  if (hourStep && isNumber(minute))
    return `every ${hourStep} hours${minute === '0' ? '' : ` at minute ${Number(minute)}`}`;
  const range = /^(\d+)-(\d+)$/.exec(hour);
  if (range && (step || minute === '0'))
    return `${step ? `every ${step} minutes` : 'every hour'} from ${clock(range[1]!, '0')} to ${clock(range[2]!, step ? '59' : '0')}`;
  const hours = hour.split(',');
  if (!isNumber(minute) || !hours.every(isNumber)) return undefined;
  return `at ${list(hours.map((one) => clock(one, minute)))}`;
}

function dateWords(day: string, month: string, weekday: string): string | undefined {
  const parts: (string | undefined)[] = [];
  if (weekday !== '*') parts.push(weekdayWords(weekday));
  if (day !== '*') parts.push(isNumber(day) ? `on day ${Number(day)} of the month` : undefined);
  if (month !== '*')
    parts.push(isNumber(month) && MONTHS[Number(month) - 1] ? `in ${MONTHS[Number(month) - 1]}` : undefined);
  // A day of the month OR a day of the week: more than a phrase can say.
  if (parts.includes(undefined) || (weekday !== '*' && day !== '*')) return undefined;
  return parts.join(' ');
}

function weekdayWords(weekday: string): string | undefined {
  const numbers = weekday.toLowerCase().replaceAll(/[a-z]{3}/g, (name) => {
    const at = DAYS.findIndex((one) => one.toLowerCase().startsWith(name));
    return at === -1 ? '?' : String(at);
  });
  if (numbers === '1-5') return 'from Monday to Friday';
  const range = /^([0-7])-([0-7])$/.exec(numbers);
  if (range) return `from ${DAYS[Number(range[1])]} to ${DAYS[Number(range[2])]}`;
  const names = numbers.split(',').map((one) => (isNumber(one) ? DAYS[Number(one)] : undefined));
  return names.every((name) => name !== undefined) ? `on ${list(names)}` : undefined;
}

function isNumber(text: string): boolean {
  return /^\d+$/.test(text);
}

function clock(hour: string, minute: string): string {
  return `${hour.padStart(2, '0')}:${minute.padStart(2, '0')}`;
}

function list(words: readonly string[]): string {
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`;
}
