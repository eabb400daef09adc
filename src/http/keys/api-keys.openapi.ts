import { SCOPES } from '../../config/api-keys-variable.ts';
import * as s from '../schema.ts';

const FIELDS = {
  id: s.TEXT,
  name: { ...s.TEXT, example: 'orders' },
  scopes: s.list(s.choice(SCOPES)),
  sources: { ...s.nullable(s.list(s.TEXT)), description: 'Null: any source.' },
  keys: { ...s.nullable(s.list(s.TEXT)), description: 'Null: any key.' },
  createdAt: s.TIME,
} as const;

export const API_KEY = s.named(
  'ApiKey',
  s.object({
    ...FIELDS,
    createdBy: s.TEXT,
    revokedAt: { ...s.nullable(s.TIME), description: 'Null: it is valid.' },
  }),
);
export type ApiKeyView = s.Shown<typeof API_KEY>;

export const CREATED_API_KEY = s.named(
  'CreatedApiKey',
  s.object({
    ...FIELDS,
    key: { ...s.TEXT, example: 'sk_<id>_<secret>', description: 'The API key itself; shown only here.' },
  }),
);
export type CreatedApiKey = s.Shown<typeof CREATED_API_KEY>;
