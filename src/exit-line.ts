import { CellRefused } from './cells/cell-refused.ts';
import { SettingsError } from './config/settings.ts';
import { EmbeddedPostgresError } from './database/embedded/embedded-postgres-error.ts';
import { MigrationError } from './database/migrate.ts';
import { DatabaseUnusableError } from './database/server-check.ts';
import { DeclarationError } from './inbox/denormalizers/declared-denormalizer.ts';
import { ReadModelsError } from './read-models-error.ts';

/** Why the process ends: one line with the next step for a known error, otherwise the stack. */
export function exitLine(error: unknown): string {
  const expected = [
    SettingsError,
    EmbeddedPostgresError,
    MigrationError,
    DatabaseUnusableError,
    DeclarationError,
    ReadModelsError,
    CellRefused,
  ];
  if (expected.some((type) => error instanceof type)) return `sluice: ${(error as Error).message}`;
  const { code, port, address, message } = error as Partial<
    Error & { code: string; port: number; address: string }
  >;
  if (message?.startsWith('unsupported startup parameter')) {
    return `sluice: DATABASE_URL points at a connection pooler (${message}); set DATABASE_POOLER=transaction`;
  }
  if (code === 'EADDRINUSE') {
    return `sluice: port ${port} on ${address} is in use; stop the process that listens there or set PORT`;
  }
  if (code === 'EACCES' && port)
    return `sluice: no permission to listen on port ${port}; set PORT to 1024 or above`;
  if (code === 'EADDRNOTAVAIL') return `sluice: HOST ${address} is not an address of this machine`;
  return `sluice: ${error instanceof Error ? error.stack : String(error)}`;
}
