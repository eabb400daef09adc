import * as s from '../../http/schema.ts';

const POINTS = { type: 'array', items: { type: 'number', nullable: true } } as const;

/** Series over all replicas. */
export const ACTIVITY = {
  title: 'Activity',
  type: 'object',
  required: ['from', 'to', 'stepSeconds', 'times', 'inbox', 'listeners', 'groups'],
  properties: {
    from: s.TIME,
    to: s.TIME,
    stepSeconds: { type: 'integer' },
    times: { type: 'array', items: s.TIME, description: 'When each step starts.' },
    inbox: {
      type: 'object',
      required: ['accepted', 'applied', 'failed', 'dead'],
      properties: { accepted: POINTS, applied: POINTS, failed: POINTS, dead: POINTS },
    },
    listeners: {
      type: 'array',
      items: {
        type: 'object',
        required: ['name', 'delivered', 'failed', 'p95Ms'],
        properties: { name: s.TEXT, delivered: POINTS, failed: POINTS, p95Ms: POINTS },
      },
    },
    groups: {
      type: 'array',
      items: {
        type: 'object',
        required: ['name', 'committed'],
        properties: { name: s.TEXT, committed: POINTS },
      },
    },
  },
};
