import { formatDuration, parseDuration } from './duration.ts';

/** A one-line reason why a value is refused, in addition to what is allowed. Never quotes the value of a secret setting. */
export class Refused {
  constructor(readonly reason: string) {}
}

/** One environment variable: its purpose, its allowed values, its default and its parser. */
export interface Setting<T> {
  readonly about: string;
  readonly allowed: string;
  /** As written in the environment; undefined if the setting has no default that could be written there. */
  readonly default: string | undefined;
  /** The value when the variable is not set. */
  readonly absent: T;
  /** Never printed, neither in errors nor in logs. */
  readonly secret: boolean;
  parse(text: string): T | Refused | undefined;
}

interface Common {
  about: string;
  secret?: boolean;
}

export function text(options: Common & { allowed?: string; pattern?: RegExp }): Setting<string | undefined> {
  const pattern = options.pattern ?? /\S/;
  return {
    about: options.about,
    allowed: options.allowed ?? 'text',
    default: undefined,
    absent: undefined,
    secret: options.secret ?? false,
    parse: (raw) => (pattern.test(raw) ? raw.trim() : undefined),
  };
}

export function textWithDefault(options: Common & { default: string; allowed?: string }): Setting<string> {
  return required(options, options.default, options.allowed ?? 'text', (raw) => raw.trim() || undefined);
}

export function integer(options: Common & { min: number; max: number; default: number }): Setting<number> {
  const { min, max } = options;
  return required(options, String(options.default), `whole number, ${min} to ${max}`, (raw) => {
    const value = /^\d{1,12}$/.test(raw.trim()) ? Number(raw) : Number.NaN;
    return value >= min && value <= max ? value : undefined;
  });
}

/** Milliseconds in code, "30s" in the environment. */
export function duration(options: Common & { min: string; max: string; default: string }): Setting<number> {
  const [min, max] = [parseDuration(options.min)!, parseDuration(options.max)!];
  const allowed = `duration, ${formatDuration(min)} to ${formatDuration(max)}`;
  return required(options, options.default, allowed, (raw) => {
    const value = parseDuration(raw);
    return value !== undefined && value >= min && value <= max ? value : undefined;
  });
}

/** Several durations, each as milliseconds in code: "1s,30s,5m". */
export function durations(options: Common & { default: string; max: number }): Setting<readonly number[]> {
  const allowed = `1 to ${options.max} durations, separated by commas`;
  return required(options, options.default, allowed, (raw) => {
    const parts = raw.split(',').map((part) => parseDuration(part));
    const valid = parts.length <= options.max && parts.every((part) => part !== undefined);
    return valid ? (parts as number[]) : undefined;
  });
}

const BYTE_UNITS = { B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3 } as const;

/** Bytes in code, "1MiB" in the environment. */
export function bytes(options: Common & { min: string; max: string; default: string }): Setting<number> {
  const parse = (raw: string) => {
    const match = /^(\d{1,6})(B|KiB|MiB|GiB)$/.exec(raw.trim());
    return match ? Number(match[1]) * BYTE_UNITS[match[2] as keyof typeof BYTE_UNITS] : undefined;
  };
  const [min, max] = [parse(options.min)!, parse(options.max)!];
  return required(options, options.default, `size, ${options.min} to ${options.max}`, (raw) => {
    const value = parse(raw);
    return value !== undefined && value >= min && value <= max ? value : undefined;
  });
}

export function choice<const T extends string>(
  options: Common & { of: readonly T[]; default: NoInfer<T> },
): Setting<T> {
  return required(options, options.default, options.of.join(', '), (raw) =>
    options.of.find((one) => one === raw.trim()),
  );
}

/** A choice whose default depends on other settings. */
export function choiceOrNone<const T extends string>(
  options: Common & { of: readonly T[] },
): Setting<T | undefined> {
  return {
    about: options.about,
    allowed: options.of.join(', '),
    default: undefined,
    absent: undefined,
    secret: options.secret ?? false,
    parse: (raw) => options.of.find((one) => one === raw.trim()),
  };
}

/** A comma-separated, non-empty subset. */
export function subset<const T extends string>(
  options: Common & { of: readonly T[]; default: readonly NoInfer<T>[] },
): Setting<readonly T[]> {
  const allowed = `any of ${options.of.join(', ')}`;
  return required(options, options.default.join(','), allowed, (raw) => {
    const parts = raw.split(',').map((part) => part.trim());
    const known = options.of.filter((one) => parts.includes(one));
    return known.length === parts.length && known.length > 0 ? known : undefined;
  });
}

/** A setting with a syntax and a parser of its own. */
export function parsed<T>(
  options: Common & { allowed: string; absent: T; parse: (raw: string) => T | Refused | undefined },
): Setting<T> {
  return {
    about: options.about,
    allowed: options.allowed,
    default: undefined,
    absent: options.absent,
    secret: options.secret ?? false,
    parse: options.parse,
  };
}

function required<T>(
  options: Common,
  byDefault: string,
  allowed: string,
  parse: (raw: string) => T | undefined,
): Setting<T> {
  const absent = parse(byDefault);
  if (absent === undefined) throw new Error(`a setting's default "${byDefault}" is not allowed: ${allowed}`);
  return {
    about: options.about,
    allowed,
    default: byDefault,
    absent,
    secret: options.secret ?? false,
    parse,
  };
}
