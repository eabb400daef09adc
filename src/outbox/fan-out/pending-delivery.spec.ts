import { describe, expect, it } from '@jest/globals';
import { explainPending, type PendingRow } from './pending-delivery.ts';

const ROW: PendingRow = {
  id: 'd-1',
  listener: 'crm',
  status: 'pending',
  state: 'active',
  state_reason: null,
  deleted: false,
  closed_until: null,
  gate_reason: null,
  hold_reason: null,
  hold_until: null,
  replica: null,
  pulled: false,
  leased_until: null,
  key_leased_until: null,
};

describe('a pending delivery waits for', () => {
  it.each<[string, Partial<PendingRow>, string]>([
    ['deleted-listener', { deleted: true, state: 'paused' }, 'created again'],
    ['disabled-listener', { state: 'disabled', state_reason: 'responded 410' }, 'responded 410'],
    ['paused-listener', { state: 'paused', closed_until: new Date(0) }, '/v1/listeners/crm/resume'],
    ['listener', { closed_until: new Date(0), gate_reason: 'circuit', hold_reason: 'retry' }, '1970-01-01'],
    ['hold', { hold_reason: 'retry', hold_until: '2026-11-16 10:00:00+00', status: 'held' }, '2026-11-16'],
    ['hold', { hold_reason: 'dead-letter', hold_until: 'infinity', status: 'held' }, 'indefinitely'],
    ['turn', { replica: 'pod-7', status: 'processing', hold_reason: 'retry' }, 'pod-7'],
    ['turn', {}, 'role outbox'],
    ['consumer', { pulled: true }, '/v1/listeners/crm/pull'],
    ['consumer', { pulled: true, leased_until: new Date(0), state: 'paused' }, '1970-01-01'],
    ['key', { pulled: true, key_leased_until: new Date(0), hold_reason: 'leased' }, '1970-01-01'],
    ['hold', { pulled: true, hold_reason: 'retry', hold_until: '2026-11-16 10:00:00+00' }, '2026-11-16'],
  ])('%s', (waitsFor, changed, words) => {
    const pending = explainPending({ ...ROW, ...changed });
    expect(pending).toMatchObject({ id: 'd-1', listener: 'crm', waitsFor });
    expect(pending.explanation).toContain(words);
  });
});
