import { SCOPES } from '../../config/api-keys-variable.ts';
import { choice, list, named, nullable, object, type Shown, TEXT, TIME } from '../schema.ts';

const FIELDS = {
  id: TEXT,
  name: { ...TEXT, example: 'orders' },
  scopes: list(choice(SCOPES)),
  sources: { ...nullable(list(TEXT)), description: 'Null: any source.' },
  keys: { ...nullable(list(TEXT)), description: 'Null: any key.' },
  createdAt: TIME,
} as const;

export const API_KEY = named(
  'ApiKey',
  object({ ...FIELDS, createdBy: TEXT, revokedAt: { ...nullable(TIME), description: 'Null: it is valid.' } }),
);
export type ApiKeyView = Shown<typeof API_KEY>;

export const CREATED_API_KEY = named(
  'CreatedApiKey',
  object({
    ...FIELDS,
    key: { ...TEXT, example: 'sk_<id>_<secret>', description: 'The API key itself; shown only here.' },
  }),
);
export type CreatedApiKey = Shown<typeof CREATED_API_KEY>;
