import { describe, expect, it } from '@jest/globals';
import { namesStandbys, serversOf } from './database-url-variable.ts';
import { formatDuration, parseDuration } from './duration.ts';
import { bytes, choice, duration, durations, integer, subset, text, textWithDefault } from './setting.ts';
import { SETTINGS } from './settings.schema.ts';
import { isLoopback, loadSettings, SettingsError } from './settings.ts';
import { settingsTable } from './settings-table.ts';

const about = 'words';
const KEY = 'sk_abc_0123456789';

describe('a setting', () => {
  it.each([
    ['text', text({ about, pattern: /^a/ }), { ' abc ': undefined, abc: 'abc', 'abc ': 'abc', b: undefined }],
    ['text', textWithDefault({ about, default: 'x' }), { ' abc ': 'abc', ' ': undefined }],
    [
      'whole number',
      integer({ about, min: 2, max: 10, default: 2 }),
      {
        2: 2,
        10: 10,
        ' 3 ': 3,
        1: undefined,
        11: undefined,
        '2.5': undefined,
        '1e1': undefined,
        '0x4': undefined,
        '-3': undefined,
        x: undefined,
      },
    ],
    [
      'duration',
      duration({ about, min: '1s', max: '1h', default: '2s' }),
      {
        '1s': 1_000,
        '1500ms': 1_500,
        '1.5s': 1_500,
        '1h': 3_600_000,
        '60m': 3_600_000,
        '999ms': undefined,
        '2h': undefined,
        5: undefined,
        '5 s': undefined,
        '5S': undefined,
        '-5s': undefined,
        '1e3s': undefined,
      },
    ],
    [
      'durations',
      durations({ about, default: '1s', max: 3 }),
      {
        '1s': [1_000],
        '1s, 2m': [1_000, 120_000],
        '1s,,2s': undefined,
        '1s,2s,3s,4s': undefined,
        '1s,x': undefined,
      },
    ],
    [
      'size',
      bytes({ about, min: '1KiB', max: '1GiB', default: '1MiB' }),
      {
        '1KiB': 1_024,
        '2MiB': 2_097_152,
        '1GiB': 1_073_741_824,
        '1024B': 1_024,
        '1023B': undefined,
        '2GiB': undefined,
        '1MB': undefined,
        1024: undefined,
        '1kib': undefined,
      },
    ],
    [
      'choice',
      choice({ about, of: ['on', 'off'], default: 'on' }),
      { on: 'on', ' off ': 'off', OFF: undefined, x: undefined },
    ],
    [
      'subset',
      subset({ about, of: ['a', 'b', 'c'], default: ['a'] }),
      { a: ['a'], 'c, a': ['a', 'c'], 'a,x': undefined, 'a,a': undefined, ',': undefined },
    ],
  ])('of the kind %s accepts allowed values and no others', (_kind, setting, cases) => {
    for (const [raw, value] of Object.entries(cases))
      expect([raw, setting.parse(raw)]).toStrictEqual([raw, value]);
  });

  it('whose default is not allowed is a programming error, and throws at once', () => {
    expect(() => integer({ about, min: 5, max: 10, default: 1 })).toThrow('default "1" is not allowed');
  });

  it.each(Object.entries(SETTINGS))('%s documents its purpose and its allowed values', (_name, setting) => {
    expect(setting.about).toMatch(/[.`)]$/);
    expect(setting.allowed).not.toBe('');
  });
});

describe('a duration', () => {
  it.each(['250ms', '30s', '90s', '5m', '2h', '7d', '1ms'])('%s is read and written the same', (written) => {
    expect(formatDuration(parseDuration(written)!)).toBe(written);
  });
});

describe('the settings', () => {
  it('have their documented defaults where a variable is not set or empty', () => {
    expect(loadSettings({})).toEqual(loadSettings({ PORT: '', API_KEYS: '', DATABASE_URL: '', HOST: '' }));
    expect(loadSettings({})).toMatchObject({
      host: '127.0.0.1',
      port: 3000,
      roles: ['api', 'inbox', 'outbox', 'upkeep'],
      requestTimeout: 15_000,
      bodyLimit: 1_048_576,
      databaseUrl: undefined,
      migrations: 'auto',
    });
  });

  it('are frozen at every depth', () => {
    const settings = loadSettings({ API_KEYS: `a=read:${KEY}` }) as unknown as {
      port: number;
      roles: string[];
      apiKeys: { name: string; scopes: string[] }[];
    };
    expect(() => (settings.port = 1)).toThrow(TypeError);
    expect(() => settings.roles.push('x')).toThrow(TypeError);
    expect(() => (settings.apiKeys[0]!.name = 'x')).toThrow(TypeError);
    expect(() => settings.apiKeys[0]!.scopes.push('admin')).toThrow(TypeError);
  });

  it('that are invalid are all reported, each in one line with name, value and what is allowed', () => {
    expect(faults({ PORT: '70000', LOG_LEVEL: 'loud', BODY_LIMIT: '1\n2', REQUEST_TIMEOUT: '5' })).toEqual([
      'PORT=70000 is not allowed; allowed: whole number, 0 to 65535',
      'LOG_LEVEL=loud is not allowed; allowed: fatal, error, warn, info, debug, trace',
      'REQUEST_TIMEOUT=5 is not allowed; allowed: duration, 1s to 5m',
      'BODY_LIMIT=1\\n2 is not allowed; allowed: size, 1KiB to 16MiB',
    ]);
  });

  it('never show an invalid secret', () => {
    const [keys, url, ...more] = faults({ API_KEYS: 'canary', DATABASE_URL: 'mysql://u:canary@h/d' });
    expect(keys).toMatch(
      /^API_KEYS=\(hidden\) is not allowed: entry 1 is not of this form; allowed: `name=scope\+scope:sk_<id>_<secret>/,
    );
    expect(url).toMatch(/^DATABASE_URL=\(hidden\) is not allowed; allowed: `postgres:\/\//);
    expect(more).toEqual([]);
  });

  it.each([
    ['DATABASE_URI', 'DATABASE_URL'],
    ['DATABSE_URL', 'DATABASE_URL'],
    ['LOGLEVEL', 'LOG_LEVEL'],
    ['API_KEY', 'API_KEYS'],
    ['MIGRATION', 'MIGRATIONS'],
    ['PROT', 'PORT'],
    ['PRT', 'PORT'],
    ['POORT', 'PORT'],
    ['HOTS', 'HOST'],
    ['OHST', 'HOST'],
    ['HOSTT', 'HOST'],
    ['HOSTS', 'HOST'],
    ['ROLE', 'ROLES'],
    ['ROELS', 'ROLES'],
    ['ROLLES', 'ROLES'],
  ])('refuse %s with a suggestion: did you mean %s?', (written, meant) => {
    expect(faults({ [written]: 'x' })).toEqual([`${written} is not a setting; did you mean ${meant}?`]);
  });

  it('ignore variables of other programs', () => {
    const others = [
      'PATH',
      'HOME',
      'HOSTNAME',
      'NODE_ENV',
      'NODE_OPTIONS',
      'PGPASSWORD',
      'npm_config_port',
      'TZ',
      'PORTS',
      'POST',
      ...[
        'PORT0',
        'PORT_0',
        'PORT1',
        'HOST0',
        'HOST_',
        'COST',
        'LOST',
        'MOST',
        'HOT',
        'SORT',
        'FORT',
        'RULES',
        'ROOT',
      ],
      ...[
        'LANG',
        'TERM',
        'USER',
        'PWD',
        'OLDPWD',
        'SHELL',
        'SHLVL',
        'LOGNAME',
        'MAIL',
        'EDITOR',
        'PAGER',
        'DISPLAY',
        '_',
        '',
      ],
      ...[
        'LS_COLORS',
        'HOSTTYPE',
        'OSTYPE',
        'MACHTYPE',
        'TMPDIR',
        'CI',
        'DEBUG',
        'INIT_CWD',
        'COLOR',
        'npm_lifecycle_event',
      ],
      ...[
        'http_proxy',
        'NO_PROXY',
        'SSL_CERT_FILE',
        'PGHOST',
        'PGPORT',
        'SLUICE_URL',
        'SLUICE_API_KEY',
        'OTEL_SERVICE_NAME',
      ],
      ...[
        'HTTP_HOST',
        'HTTP_PORT',
        'DB_HOST',
        'DB_PORT',
        'REDIS_HOST',
        'POD_NAME',
        'NODE_NAME',
        'KUBERNETES_PORT',
      ],
    ];
    expect(() => loadSettings(Object.fromEntries(others.map((name) => [name, 'x'])))).not.toThrow();
  });

  it('do not mistake a Kubernetes service variable for a misspelt setting', () => {
    const links = (service: string) => ({
      [`${service}_SERVICE_HOST`]: '10.0.0.1',
      [`${service}_SERVICE_PORT`]: '80',
      [`${service}_SERVICE_PORT_HTTP`]: '80',
      [`${service}_PORT`]: 'tcp://10.0.0.1:80',
      [`${service}_PORT_80_TCP`]: 'tcp://10.0.0.1:80',
      [`${service}_PORT_80_TCP_ADDR`]: '10.0.0.1',
    });
    for (const service of [
      'SLUICE',
      'SLUICE_API',
      'INBOX',
      'OUTBOX',
      'KUBERNETES',
      'DATABASE',
      'LOG',
      'HOST',
      'PORT',
    ])
      expect(() => loadSettings(links(service))).not.toThrow();
    expect(faults({ OUTBOX_PORT: '80' })).toEqual([
      'OUTBOX_PORT is not a setting; did you mean OUTBOX_POLL?',
    ]);
  });

  it.each([
    [{ RETENTION_WAITING: '29d' }, 'RETENTION_WAITING=29d is shorter than RETENTION_DEAD=30d: '],
    [{ RETENTION_DEAD: '91d' }, 'RETENTION_WAITING=90d is shorter than RETENTION_DEAD=91d: '],
    [{ RETENTION_EXPIRED: '91d' }, 'RETENTION_WAITING=90d is shorter than RETENTION_EXPIRED=91d: '],
    [{ RETENTION_SUPERSEDED: '91d' }, 'RETENTION_WAITING=90d is shorter than RETENTION_SUPERSEDED=91d: '],
    [
      { RETENTION_DEAD_QUEUES: 'a=1d,b=91d' },
      'RETENTION_WAITING=90d is shorter than RETENTION_DEAD_QUEUES b=91d: ',
    ],
    [
      { RETENTION_TYPES: 'urn:*=100d', RETENTION_PRODUCERS: '100d' },
      'RETENTION_WAITING=90d is shorter than RETENTION_TYPES urn:*=100d: ',
    ],
    [
      { RETENTION_TYPES: 'urn:*=100d', RETENTION_WAITING: '100d' },
      'RETENTION_PRODUCERS=90d is shorter than RETENTION_TYPES urn:*=100d: ',
    ],
    [{ RETENTION_PRODUCERS: '6d' }, 'RETENTION_PRODUCERS=6d is shorter than RETENTION_FINISHED=7d: '],
  ])('refuse retentions that contradict each other: %j', (environment, line) => {
    expect(faults(environment)).toEqual([expect.stringContaining(line)]);
    expect(faults(environment)[0]).toMatch(/; set RETENTION_(WAITING|PRODUCERS) to \d+d or more$/);
  });

  it('accept retentions of equal length', () => {
    const all = ['FINISHED', 'DEAD', 'EXPIRED', 'SUPERSEDED', 'WAITING', 'PRODUCERS'];
    expect(() =>
      loadSettings(Object.fromEntries(all.map((name) => [`RETENTION_${name}`, '5d']))),
    ).not.toThrow();
  });

  it('have a database URL that the driver can parse', () => {
    for (const good of [
      'postgres://u:p@h:5432/d',
      'postgresql://h/d',
      'postgres://u:p%40ss@[::1]/d?sslmode=require',
      'postgres:///d?host=/var/run/postgresql',
      'postgres://u:p@a:5432,b,[::1]:6/d?sslmode=require&target_session_attrs=read-write',
      'postgres://u:p,q@a,b/d?target_session_attrs=primary',
    ]) {
      expect(loadSettings({ DATABASE_URL: good }).databaseUrl).toBe(good);
    }
    for (const bad of [
      'postgres://u:p@h:port/d',
      'postgres://u:p%w@h/d',
      'postgres://',
      'h/d',
      'postgres://h/a b',
      'postgres://a,,b/d',
      'postgres://a,b:port/d',
    ]) {
      expect([bad, faults({ DATABASE_URL: bad }).length]).toEqual([bad, 1]);
    }
  });

  it.each([
    ['postgres://u:canary@a,a:5432/d', 'a host is named twice'],
    ['postgres://a,b/d?target_session_attrs=any', 'target_session_attrs must be read-write or primary'],
    ['postgres://a/d?target_session_attrs=standby', 'target_session_attrs must be read-write or primary'],
    ['postgres://a,b/d?host=c', 'several hosts belong before the name of the database'],
  ])('have a database URL with several hosts that is not %s: %s', (url, reason) => {
    expect(faults({ DATABASE_URL: url })).toEqual([
      expect.stringMatching(new RegExp(`^DATABASE_URL=\\(hidden\\) is not allowed: ${reason}`)),
    ]);
  });

  it.each<[string, Record<string, string>, string]>([
    [
      'has no primary',
      { READ_DATABASE_URL: 'postgres://b/d' },
      'READ_DATABASE_URL needs DATABASE_URL: the embedded PostgreSQL has no standby',
    ],
    [
      'belongs to no cell',
      { READ_DATABASE_URL: 'postgres://b/d', CELLS: 'a=postgres://a/d' },
      'READ_DATABASE_URL does not work with CELLS: each cell would need standbys of its own; leave it out',
    ],
    [
      'wants to write',
      { READ_DATABASE_URL: 'postgres://b/d?target_session_attrs=read-write', DATABASE_URL: 'postgres://a/d' },
      'READ_DATABASE_URL=(hidden) is not allowed: target_session_attrs must be standby',
    ],
  ])('have no standby that %s', (_, environment, reason) => {
    expect(faults(environment)).toEqual([expect.stringContaining(reason)]);
  });

  it('give each server of a database URL a URL of its own', () => {
    const url = 'postgres://u:p%40@a:6432,[::1]/d?target_session_attrs=read-write&sslmode=require';
    expect(serversOf(url)).toEqual([
      { address: 'a:6432', host: 'a', port: 6432, url: 'postgres://u:p%40@a:6432/d?sslmode=require' },
      { address: '[::1]:5432', host: '::1', port: 5432, url: 'postgres://u:p%40@[::1]/d?sslmode=require' },
    ]);
    expect([url, 'postgres://a/d', 'postgres://a/d?target_session_attrs=primary'].map(namesStandbys)).toEqual(
      [true, false, true],
    );
  });

  it('for retention list types and queues, each once, with a duration', () => {
    const { retentionTypes, retentionDeadQueues } = loadSettings({
      RETENTION_TYPES: 'urn:a/*=1d, urn:b=0s',
      RETENTION_DEAD_QUEUES: 'inbox=14d',
    });
    expect(retentionTypes).toEqual([
      { name: 'urn:a/*', ms: 86_400_000 },
      { name: 'urn:b', ms: 0 },
    ]);
    expect(retentionDeadQueues).toEqual([{ name: 'inbox', ms: 1_209_600_000 }]);
    for (const bad of ['a', '=1d', 'a=', 'a=1d,', 'a=1d,a=2d', 'a=soon'])
      expect([bad, faults({ RETENTION_TYPES: bad }).length]).toEqual([bad, 1]);
  });

  it('for history lists patterns, each with a duration or "forever", in their order', () => {
    expect(loadSettings({ HISTORY: 'urn:a/*=365d, urn:b=x=forever' }).history).toEqual([
      { pattern: 'urn:a/*', ms: 31_536_000_000 },
      { pattern: 'urn:b=x', ms: undefined },
    ]);
    for (const [bad, reason] of [
      ['urn:a', '"urn:a" is not <pattern>=<duration>'],
      ['=1d', '"=1d" is not <pattern>=<duration>'],
      ['urn:a=forever,', '"" is not <pattern>=<duration>'],
      ['urn:a=always', '"always" of urn:a is neither a duration nor "forever"'],
      ['urn:a=8d,urn:a=forever', 'urn:a is given twice'],
    ] as const)
      expect(faults({ HISTORY: bad })).toEqual([
        expect.stringContaining(`is not allowed: ${reason}; allowed: `),
      ]);
  });

  it('refuse a history that is over when it begins', () => {
    expect(faults({ HISTORY: 'urn:a=7d,urn:b=8d' })).toEqual([
      expect.stringContaining('HISTORY urn:a=7d is not longer than RETENTION_FINISHED=7d: '),
    ]);
    expect(faults({ HISTORY: 'urn:a=9d', RETENTION_TYPES: 'urn:a=9d' })).toEqual([
      expect.stringContaining('HISTORY urn:a=9d is not longer than RETENTION_TYPES urn:a=9d: '),
    ]);
    expect(faults({ HISTORY: 'urn:a=1d', RETENTION_TYPES: 'urn:a=1h' })).toEqual([]);
  });

  it('for dead letter alerts are ascending thresholds, for all queues and for single ones', () => {
    expect(loadSettings({}).deadLetterAlerts).toEqual([{ queue: undefined, thresholds: [1, 5] }]);
    expect(loadSettings({ DEAD_LETTER_ALERTS: '1+5, billing=10' }).deadLetterAlerts).toEqual([
      { queue: undefined, thresholds: [1, 5] },
      { queue: 'billing', thresholds: [10] },
    ]);
    for (const bad of ['5+1', '0', '1,2', 'a=1,a=2', 'a', '1+', 'a=-1'])
      expect([bad, faults({ DEAD_LETTER_ALERTS: bad }).length]).toEqual([bad, 1]);
  });

  it('for API keys are a list of names, scopes and keys', () => {
    expect(loadSettings({ API_KEYS: `a=read:${KEY}, b-1=produce+consume:sk_d_12345678` }).apiKeys).toEqual([
      { name: 'a', scopes: ['read'], key: KEY },
      { name: 'b-1', scopes: ['produce', 'consume'], key: 'sk_d_12345678' },
    ]);
    for (const bad of [
      'a',
      `a=${KEY}`,
      `a=root:${KEY}`,
      `a=read+:${KEY}`,
      'a=read:sk_abc_short',
      'a=read:abc_0123456789',
      `=read:${KEY}`,
      `a=read:${KEY},`,
      `a=read:${KEY},a=read:sk_d_12345678`,
      `a=read:${KEY},b=read:sk_abc_another1`,
    ]) {
      expect([bad, faults({ API_KEYS: bad }).length]).toEqual([bad, 1]);
    }
  });
});

describe('a combination of settings', () => {
  it.each(['0.0.0.0', '::', '10.0.0.1', 'example.org', '128.0.0.1'])(
    'without an API key is refused on %s',
    (HOST) => {
      expect(faults({ HOST })).toEqual([
        `HOST=${HOST} without API_KEYS would let anyone in; set API_KEYS, or leave HOST at 127.0.0.1`,
      ]);
      expect(loadSettings({ HOST, API_KEYS: `a=read:${KEY}` }).host).toBe(HOST);
    },
  );

  it.each(['127.0.0.1', '127.8.9.10', '::1', 'localhost'])(
    'without an API key is allowed on the loopback address %s',
    (HOST) => {
      expect(isLoopback(HOST)).toBe(true);
      expect(loadSettings({ HOST }).host).toBe(HOST);
    },
  );

  it('is safe by default: with keys the service listens on all addresses, without keys on loopback', () => {
    expect(loadSettings({ API_KEYS: `a=read:${KEY}` }).host).toBe('0.0.0.0');
    expect(loadSettings({}).host).toBe('127.0.0.1');
  });
});

describe('METRICS_ACCESS', () => {
  it.each([
    ['open', {}],
    ['open', { HOST: '::1', API_KEYS: `a=read:${KEY}` }],
    ['keyed', { API_KEYS: `a=read:${KEY}` }],
    ['keyed', { HOST: '10.0.0.1', API_KEYS: `a=read:${KEY}` }],
    ['open', { METRICS_ACCESS: 'open', API_KEYS: `a=read:${KEY}` }],
    ['keyed', { METRICS_ACCESS: 'keyed' }],
  ])('is %s by default or by name: %j', (access, environment) => {
    expect(loadSettings(environment).metricsAccess).toBe(access);
  });
});

describe('the table of settings', () => {
  it('has a row of four cells for each, below the heading of its area', () => {
    const lines = settingsTable().split('\n');
    expect(lines.slice(0, 3)).toEqual([
      '## The replica',
      '',
      '| variable | default | allowed | what it does |',
    ]);
    expect(lines.filter((line) => line.startsWith('## '))).toHaveLength(9);
    const rows = lines.filter((line) => line.startsWith('| `'));
    expect(rows.map((row) => /^\| `(\w+)` \|/.exec(row)?.[1])).toEqual(Object.keys(SETTINGS));
    for (const row of rows) expect(row.split(/(?<!\\)\|/)).toHaveLength(6);
  });
});

function faults(environment: Record<string, string>): string[] {
  try {
    loadSettings(environment);
  } catch (error) {
    expect(error).toBeInstanceOf(SettingsError);
    return (error as Error).message.split('\n');
  }
  return [];
}
