import * as s from '../../http/schema.ts';
import { ATTENTION } from '../attention/attention.openapi.ts';
import { BACKLOG } from '../observation/backlog.openapi.ts';

const PER_SECOND = { type: 'number' } as const;

const RATES = {
  title: 'Rates',
  type: 'object',
  required: ['windowSeconds', 'acceptedPerSecond', 'appliedPerSecond', 'listeners', 'groups'],
  properties: {
    windowSeconds: { type: 'integer' },
    acceptedPerSecond: PER_SECOND,
    appliedPerSecond: PER_SECOND,
    listeners: {
      type: 'array',
      items: {
        type: 'object',
        required: ['name', 'deliveredPerSecond', 'failedPerSecond', 'successRatio', 'p95Ms'],
        properties: {
          name: s.TEXT,
          deliveredPerSecond: PER_SECOND,
          failedPerSecond: PER_SECOND,
          successRatio: { type: 'number', nullable: true },
          p95Ms: { type: 'number', nullable: true },
        },
      },
    },
    groups: {
      type: 'array',
      items: {
        type: 'object',
        required: ['name', 'committedPerSecond'],
        properties: { name: s.TEXT, committedPerSecond: PER_SECOND },
      },
    },
  },
};

/** The data of the event `snapshot`. */
export const SNAPSHOT = {
  title: 'LiveSnapshot',
  type: 'object',
  required: ['at', 'backlog', 'attention', 'rates'],
  properties: { at: s.TIME, backlog: BACKLOG, attention: ATTENTION, rates: RATES },
};
