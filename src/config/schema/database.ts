import { DATABASE_URL_FORM, parseDatabaseUrl, parseReadDatabaseUrl } from '../database-url-variable.ts';
import { choice, duration, integer, parsed, textWithDefault } from '../setting.ts';

/** PostgreSQL. */
export const DATABASE_SETTINGS = {
  DATABASE_URL: parsed<string | undefined>({
    secret: true,
    allowed: DATABASE_URL_FORM,
    absent: undefined,
    parse: parseDatabaseUrl,
    about:
      'PostgreSQL 14 or newer; of several hosts the one that accepts writes is used. Default: an embedded PostgreSQL in `DATA_DIRECTORY`.',
  }),
  READ_DATABASE_URL: parsed<string | undefined>({
    secret: true,
    allowed: DATABASE_URL_FORM,
    absent: undefined,
    parse: parseReadDatabaseUrl,
    about:
      'Standbys of `DATABASE_URL` that [serve read models](high-availability.md#reads-from-standbys); each host is one server. Default: the primary serves them.',
  }),
  READ_MAX_LAG: duration({
    min: '1s',
    max: '30m',
    default: '5s',
    about: 'A standby that is further behind the primary serves no reads.',
  }),
  DATABASE_POOL_SIZE: integer({
    min: 4,
    max: 500,
    default: 10,
    about:
      "Max connections of the engine's pool; the pool of the read API, and that of each standby, have the same number in addition.",
  }),
  DATABASE_POOLER: choice({
    of: ['none', 'transaction'],
    default: 'none',
    about: '`transaction`: connections go through a pooler such as PgBouncer in transaction mode.',
  }),
  DATABASE_STATEMENT_TIMEOUT: duration({
    min: '1s',
    max: '2m',
    default: '30s',
    about: 'The server cancels a statement that takes longer.',
  }),
  DATABASE_CONNECT_TIMEOUT: duration({
    min: '1s',
    max: '5m',
    default: '10s',
    about: 'Max wait for a connection, to the server or from the pool.',
  }),
  DATA_DIRECTORY: textWithDefault({
    default: '.data',
    about: 'Folder of the embedded PostgreSQL, and of a generated `secrets.key`.',
  }),
  MIGRATIONS: choice({
    of: ['auto', 'off'],
    default: 'auto',
    about:
      '`auto`: migrate at start, one replica at a time. `off`: refuse to start unless `npm run migrate` has done it.',
  }),
} as const;
