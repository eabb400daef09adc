import * as s from '../../http/schema.ts';
import { KINDS } from './attention-item.ts';

export const ATTENTION = {
  title: 'Attention',
  type: 'object',
  required: ['observedAt', 'items'],
  properties: {
    observedAt: s.TIME,
    items: {
      type: 'array',
      items: {
        title: 'AttentionItem',
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
          id: { ...s.TEXT, description: 'The same as long as it is about the same.' },
          kind: { ...s.TEXT, enum: [...KINDS] },
          severity: { ...s.TEXT, enum: ['critical', 'warning'] },
          sentence: s.TEXT,
          since: { ...s.TIME, nullable: true },
          count: { type: 'integer', nullable: true },
          nextStep: s.TEXT,
          guide: { ...s.TEXT, description: 'The chapter of docs/operating.md.' },
          subject: { type: 'object', additionalProperties: s.TEXT, description: 'What it is about.' },
          action: {
            type: 'object',
            nullable: true,
            description: 'A request that does the next step.',
            required: ['label', 'method', 'path'],
            properties: { label: s.TEXT, method: s.TEXT, path: s.TEXT, body: { type: 'object' } },
          },
        },
      },
    },
  },
};
