import { TEXT, TIME } from '../../http/schema.ts';
import { KINDS } from './attention-item.ts';

export const ATTENTION = {
  type: 'object',
  required: ['observedAt', 'items'],
  properties: {
    observedAt: TIME,
    items: {
      type: 'array',
      items: {
        type: 'object',
        required: [
          'id',
          'kind',
          'severity',
          'sentence',
          'since',
          'count',
          'nextStep',
          'guide',
          'subject',
          'action',
        ],
        properties: {
          id: { ...TEXT, description: 'The same as long as it is about the same.' },
          kind: { ...TEXT, enum: [...KINDS] },
          severity: { ...TEXT, enum: ['critical', 'warning'] },
          sentence: TEXT,
          since: { ...TIME, nullable: true },
          count: { type: 'integer', nullable: true },
          nextStep: TEXT,
          guide: { ...TEXT, description: 'The chapter of docs/operating.md.' },
          subject: { type: 'object', additionalProperties: TEXT, description: 'What it is about.' },
          action: {
            type: 'object',
            nullable: true,
            description: 'A request that does the next step.',
            required: ['label', 'method', 'path'],
            properties: { label: TEXT, method: TEXT, path: TEXT, body: { type: 'object' } },
          },
        },
      },
    },
  },
};
