import { describe, expect, it } from '@jest/globals';
import { createLog, type Log } from './logger.ts';
import { NestLog } from './nest-log.ts';
import { prettyStream } from './pretty-stream.ts';

const CANARY = 'canary7f3a';

describe('a log line', () => {
  it('is one JSON object with a time, a level, an event and its fields', () => {
    const [line] = linesOf((log) => log.info({ event: 'inbox.finished', count: 3 }, 'words\nand more'));
    expect(line).toMatch(/^[^\n]*\n$/);
    expect(JSON.parse(line!)).toEqual({
      level: 'info',
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      service: 'sluice',
      pid: process.pid,
      event: 'inbox.finished',
      count: 3,
      msg: 'words\nand more',
    });
  });

  it('is written only if its level is severe enough', () => {
    const lines = linesOf((log) => {
      log.debug({ event: 'a.b' }, 'no');
      log.warn({ event: 'a.c' }, 'yes');
    }, 'warn');
    expect(lines.map((line) => JSON.parse(line).event)).toEqual(['a.c']);
  });

  it.each([
    'authorization',
    'Authorization',
    'secret',
    'password',
    'apiKey',
    'API_KEYS',
    'api-key',
    'signature',
    'token',
    'cookie',
    'databaseUrl',
    'payload',
    'data',
    'body',
    'headers',
  ])('never contains the value of a field %s, at any depth', (name) => {
    const deep = (levels: number): object =>
      levels === 0 ? { [name]: CANARY } : { inner: deep(levels - 1) };
    for (const levels of [0, 1, 2, 3, 4, 5, 8]) {
      const [line] = linesOf((log) => log.info({ event: 'a.b', ...deep(levels) }, 'words'));
      expect(line).not.toContain(CANARY);
    }
    const [listed] = linesOf((log) =>
      log.info({ event: 'a.b', list: [{ [name]: { very: CANARY } }] }, 'words'),
    );
    expect(listed).not.toContain(CANARY);
  });

  it.each([
    ['an api key', `sk_abc_${CANARY}${CANARY}`, 'sk_abc_[redacted]'],
    ['a webhook secret', `whsec_${CANARY}+/=`, 'whsec_[redacted]'],
    ['the password of a URL', `postgres://user:${CANARY}@host/db`, 'postgres://user:[redacted]@host/db'],
  ])('never contains %s, in any field, in its message or in a stack', (_what, secret, shown) => {
    const lines = linesOf((log) => {
      log.info({ event: 'a.b', innocent: `before ${secret} after` }, 'words');
      log.info({ event: 'a.b' }, `before ${secret} after`);
      log.info({ event: 'a.b', error: new Error(secret) }, 'words');
    });
    expect(lines).toHaveLength(3);
    for (const line of lines) {
      expect(line).not.toContain(CANARY);
      expect(line).toContain(shown);
    }
  });

  it('has the name, code, message and stack of an error, and nothing that PostgreSQL quotes from a row', () => {
    const fault = Object.assign(new Error('duplicate key value violates unique constraint "inbox_pkey"'), {
      name: 'error',
      code: '23505',
      detail: `Key (id)=(${CANARY}) already exists.`,
      where: CANARY,
      parameters: [CANARY],
      driverError: { detail: CANARY },
    });
    const [line, nested] = linesOf((log) => {
      log.error({ event: 'a.b', error: fault }, 'words');
      log.error({ event: 'a.b', causes: [{ error: fault }] }, 'words');
    });
    expect(JSON.parse(line!).error).toEqual({
      name: 'error',
      code: '23505',
      message: fault.message,
      stack: expect.stringContaining('logger.spec.ts'),
    });
    expect(line! + nested).not.toContain(CANARY);
    expect(nested).toContain('inbox_pkey');
  });

  it('has the cause of an error, without values that it quotes', () => {
    const cause = Object.assign(new Error(`invalid input syntax for type uuid: "${CANARY}"`), {
      code: '22P02',
    });
    const error = new Error('the migrations could not begin', { cause });
    const [line] = linesOf((log) => log.error({ event: 'a.b', error }, 'words'));
    expect(JSON.parse(line!).error.cause).toEqual({
      name: 'Error',
      code: '22P02',
      message: 'invalid input syntax for type uuid: "…"',
    });
    expect(line).not.toContain(CANARY);
  });

  it.each([
    ['22P02', `invalid input syntax for type uuid: "${CANARY}"`],
    ['22P02', `invalid input syntax for type json: "{"a":"${CANARY}"}"`],
    ['22003', `value "${CANARY}" is out of range for type integer`],
    ['22007', `invalid input syntax for type date: "${CANARY}\n${CANARY}"`],
  ])('has no value that the message of a data exception quotes (%s)', (code, message) => {
    const [line] = linesOf((log) =>
      log.error({ event: 'a.b', error: Object.assign(new Error(message), { code }) }, 'words'),
    );
    expect(line).not.toContain(CANARY);
    expect(JSON.parse(line!).error.message).toContain('"…"');
  });

  it('contains nothing of a text that could not be parsed as JSON', () => {
    const fault = parseFault(`{"a": ${CANARY}`);
    expect(fault.message).toContain('canary');
    const [line] = linesOf((log) => log.error({ event: 'a.b', error: fault }, 'words'));
    expect(line).not.toContain('canary');
  });

  it('can be made of any value', () => {
    const ring: Record<string, unknown> = {};
    ring.ring = ring;
    const lines = linesOf((log) => {
      log.info(
        {
          event: 'a.b',
          ring,
          bytes: Buffer.from(CANARY),
          when: new Date(0),
          none: null,
          url: new URL('http://h/'),
        },
        'x',
      );
      log.error({ event: 'a.b', error: 'a text' }, 'x');
      log.error({ event: 'a.b', error: undefined }, 'x');
    });
    expect(JSON.parse(lines[0]!)).toMatchObject({
      bytes: '[10 bytes]',
      when: '1970-01-01T00:00:00.000Z',
      none: null,
      url: 'http://h/',
    });
    expect(lines.slice(1).map((line) => JSON.parse(line).error)).toEqual([{ message: 'a text' }, undefined]);
  });
});

describe('a log line of Nest', () => {
  it('has the format of the other lines; start-up messages are at debug', () => {
    const lines = linesOf((log) => {
      const nest = new NestLog(log);
      nest.log('mapped', 'Router');
      nest.warn('careful', 'Router');
      nest.warn('a data source with the default name is already registered', 'DataSourceNameRegistry');
      nest.error(new Error('broken'), 'stack', 'Router');
      nest.fatal('worse', 'Router');
      nest.debug('chatter', 'Router');
      nest.verbose('more', 'Router');
    });
    expect(
      lines
        .map((line) => JSON.parse(line))
        .map(({ level, event, context, msg }) => [level, event, context, msg]),
    ).toEqual([
      ['debug', 'nest.log', 'Router', 'mapped'],
      ['warn', 'nest.warning', 'Router', 'careful'],
      ['error', 'nest.error', 'Router', 'broken'],
      ['error', 'nest.error', 'Router', 'worse'],
      ['trace', 'nest.debug', 'Router', 'chatter'],
      ['trace', 'nest.debug', 'Router', 'more'],
    ]);
  });
});

describe('a log on a terminal', () => {
  it('is a line with time, level, event, message and fields, and the stack of an error below it', () => {
    const shown: string[] = [];
    const log = createLog(
      { logLevel: 'trace', logFormat: 'pretty' },
      prettyStream({ write: (text) => shown.push(text) }),
    );
    log.warn({ event: 'inbox.dead', key: 'c-1', attempt: 3, lanes: [1, 2] }, 'a message is given up');
    log.error({ event: 'loop.failed', error: new Error('broken') }, 'again');

    const [line, fault] = shown.map((text) => text.replace(/\u001b\[\d+m/g, ''));
    expect(line).toMatch(
      /^\d\d:\d\d:\d\d\.\d{3} warn {2}inbox\.dead {2}a message is given up {2}key=c-1 {2}attempt=3 {2}lanes=\[1,2\]\n$/,
    );
    expect(fault).toMatch(/^\S+ error loop\.failed {2}again\nError: broken\n {4}at /);
    expect(shown[0]).toContain('\u001b[33mwarn');
  });
});

function linesOf(work: (log: Log) => void, logLevel: 'trace' | 'warn' = 'trace'): string[] {
  const lines: string[] = [];
  work(createLog({ logLevel, logFormat: 'json' }, { write: (line) => void lines.push(line) }));
  return lines;
}

function parseFault(text: string): Error {
  try {
    JSON.parse(text);
  } catch (error) {
    return error as Error;
  }
  throw new Error('it is JSON');
}
