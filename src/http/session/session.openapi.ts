import { TEXT, TIME } from '../schema.ts';

export const SESSION = {
  type: 'object',
  required: ['name', 'scopes', 'open', 'environment', 'version', 'expiresAt'],
  properties: {
    name: { ...TEXT, description: 'Of the API key.' },
    scopes: { type: 'array', items: TEXT },
    open: { type: 'boolean', description: 'The service runs without API keys: no sign-in is needed.' },
    environment: { ...TEXT, nullable: true, description: 'The setting ENVIRONMENT.' },
    version: TEXT,
    expiresAt: {
      ...TIME,
      nullable: true,
      description: 'When the session ends; null for a caller without one.',
    },
  },
};
