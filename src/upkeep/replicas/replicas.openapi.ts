import * as s from '../../http/schema.ts';

const COUNT = { type: 'integer' } as const;

export const REPLICAS = {
  type: 'object',
  required: ['items', 'next'],
  properties: {
    items: {
      type: 'array',
      items: {
        title: 'Replica',
        type: 'object',
        required: ['id', 'roles', 'version', 'host', 'startedAt', 'seenAt', 'alive', 'lanes'],
        properties: {
          id: { ...s.TEXT, description: 'Another one after each start.' },
          roles: { type: 'array', items: s.TEXT },
          version: s.TEXT,
          host: s.TEXT,
          startedAt: s.TIME,
          seenAt: s.TIME,
          alive: { type: 'boolean', description: 'It was seen within the last 20 s.' },
          lanes: {
            type: 'object',
            description: 'How many lanes it holds now.',
            required: ['inbox', 'outbox'],
            properties: { inbox: COUNT, outbox: COUNT },
          },
        },
      },
    },
    next: { ...s.TEXT, nullable: true },
  },
};
