import { describe, expect, it } from '@jest/globals';
import { CellRefused } from './cells/cell-refused.ts';
import { SettingsError } from './config/settings.ts';
import { EmbeddedPostgresError } from './database/embedded/embedded-postgres-error.ts';
import { MigrationError } from './database/migrate.ts';
import { DatabaseUnusableError } from './database/server-check.ts';
import { exitLine } from './exit-line.ts';

describe('the last line of a service that cannot start', () => {
  it.each([
    ['of the settings', new SettingsError(['PORT=x is not allowed'])],
    ['of the embedded PostgreSQL', new EmbeddedPostgresError('no room')],
    ['of a migration', new MigrationError('it failed')],
    ['of the database', new DatabaseUnusableError('too old')],
    ['of a cell', new CellRefused('another one')],
  ])('is what an expected fault says: %s', (_what, fault) => {
    expect(exitLine(fault)).toBe(`sluice: ${fault.message}`);
  });

  it.each([
    [
      { code: 'EADDRINUSE', port: 80, address: '::1' },
      'port 80 on ::1 is in use; stop the process that listens there or set PORT',
    ],
    [{ code: 'EACCES', port: 80 }, 'no permission to listen on port 80; set PORT to 1024 or above'],
    [{ code: 'EADDRNOTAVAIL', address: '192.0.2.1' }, 'HOST 192.0.2.1 is not an address of this machine'],
    [
      { code: '08P01', message: 'unsupported startup parameter: options' },
      'DATABASE_URL points at a connection pooler (unsupported startup parameter: options); set DATABASE_POOLER=transaction',
    ],
  ])('names the next step for %j', (fields, line) => {
    expect(exitLine(Object.assign(new Error('raw'), fields))).toBe(`sluice: ${line}`);
  });

  it('is the stack of an unexpected error, or its text', () => {
    expect(exitLine(new Error('a bug'))).toMatch(/^sluice: Error: a bug\n {4}at /);
    expect(exitLine('a text')).toBe('sluice: a text');
  });
});
