import { ANY, COUNT, choice, named, nullable, object, type Shown, TEXT, TIME } from '../schema.ts';
import { ACTIONS } from './audit-log.ts';

export const AUDIT_ENTRY = named(
  'AuditEntry',
  object({
    id: TEXT,
    at: TIME,
    by: { ...TEXT, description: 'The name of the API key, or LISTENERS_FILE.' },
    action: choice(ACTIONS),
    target: { ...nullable(TEXT), description: 'The name or id of what was changed.' },
    filter: { ...ANY, description: 'Of an action on many items; else null.' },
    count: { ...nullable(COUNT), description: 'How many items an action on many changed.' },
    reason: nullable(TEXT),
  }),
);
export type AuditEntryView = Shown<typeof AUDIT_ENTRY>;
