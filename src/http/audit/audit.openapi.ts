import * as s from '../schema.ts';
import { ACTIONS } from './audit-log.ts';

export const AUDIT_ENTRY = s.named(
  'AuditEntry',
  s.object({
    id: s.TEXT,
    at: s.TIME,
    by: { ...s.TEXT, description: 'The name of the API key, or LISTENERS_FILE.' },
    action: s.choice(ACTIONS),
    target: { ...s.nullable(s.TEXT), description: 'The name or id of what was changed.' },
    filter: { ...s.ANY, description: 'Of an action on many items; else null.' },
    count: { ...s.nullable(s.COUNT), description: 'How many items an action on many changed.' },
    reason: s.nullable(s.TEXT),
  }),
);
export type AuditEntryView = s.Shown<typeof AUDIT_ENTRY>;
