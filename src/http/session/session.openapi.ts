import { SCOPES } from '../../config/api-keys-variable.ts';
import * as s from '../schema.ts';

export const SESSION = {
  title: 'Session',
  type: 'object',
  required: ['name', 'scopes', 'open', 'environment', 'version', 'expiresAt'],
  properties: {
    name: { ...s.TEXT, description: 'Of the API key.' },
    scopes: { type: 'array', items: { ...s.TEXT, enum: [...SCOPES] } },
    open: { type: 'boolean', description: 'The service runs without API keys: no sign-in is needed.' },
    environment: { ...s.TEXT, nullable: true, description: 'The setting ENVIRONMENT.' },
    version: s.TEXT,
    expiresAt: {
      ...s.TIME,
      nullable: true,
      description: 'When the session ends; null for a caller without one.',
    },
  },
};
