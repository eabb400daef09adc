import { CELLS_SETTINGS } from './schema/cells.ts';
import { DATABASE_SETTINGS } from './schema/database.ts';
import { INBOX_SETTINGS } from './schema/inbox.ts';
import { OUTBOX_SETTINGS } from './schema/outbox.ts';
import { REPLICA_SETTINGS } from './schema/replica.ts';
import { UPKEEP_SETTINGS } from './schema/upkeep.ts';

/**
 * Every variable that the service reads, in the order of `docs/settings.md`. Every interval, limit or timeout
 * that an operator may want to change is defined in `schema/` and nowhere else.
 */
export const SETTINGS = {
  ...REPLICA_SETTINGS,
  ...INBOX_SETTINGS,
  ...OUTBOX_SETTINGS,
  ...UPKEEP_SETTINGS,
  ...DATABASE_SETTINGS,
  ...CELLS_SETTINGS,
} as const;
