import { describe, expect, it } from '@jest/globals';
import { Cron } from './cron.ts';
import { dueTicks, MAX_MISSED, type OnMissed } from './due-ticks.ts';

function cronOf(text: string, timezone = 'Europe/Warsaw'): Cron {
  const parsed = Cron.parse(text, timezone);
  if (parsed.kind === 'faulty') throw new Error(parsed.detail);
  return parsed.cron;
}

const utc = (times: readonly Date[]) => times.map((time) => time.toISOString().slice(0, 16));
const ticks = (text: string, from: string, count: number, timezone?: string) =>
  utc(cronOf(text, timezone).between(new Date(from), new Date('2100-01-01'), count));

describe('a cron expression', () => {
  it('E1 ticks by the local time of its zone, in winter and in summer', () => {
    expect(ticks('0 9 * * 1-5', '2026-01-09T12:00:00Z', 2)).toEqual(['2026-01-12T08:00', '2026-01-13T08:00']);
    expect(ticks('0 9 * * 1-5', '2026-07-10T12:00:00Z', 1)).toEqual(['2026-07-13T07:00']);
    expect(ticks('0 9 * * *', '2026-07-10T12:00:00Z', 1, 'UTC')).toEqual(['2026-07-11T09:00']);
  });

  it('ticks once at the end of an hour that is skipped in spring', () => {
    // 2026-03-29: 02:00 is 03:00.
    expect(ticks('30 2 * * *', '2026-03-28T00:00:00Z', 3)).toEqual([
      '2026-03-28T01:30',
      '2026-03-29T01:00',
      '2026-03-30T00:30',
    ]);
    expect(ticks('0 * * * *', '2026-03-28T23:30:00Z', 3)).toEqual([
      '2026-03-29T00:00',
      '2026-03-29T01:00',
      '2026-03-29T02:00',
    ]);
  });

  it('ticks once at a time that occurs twice in autumn, and in both hours when it ticks every hour', () => {
    // 2026-10-25: 03:00 is 02:00.
    expect(ticks('30 2 * * *', '2026-10-24T12:00:00Z', 2)).toEqual(['2026-10-25T00:30', '2026-10-26T01:30']);
    expect(ticks('30 * * * *', '2026-10-24T23:40:00Z', 3)).toEqual([
      '2026-10-25T00:30',
      '2026-10-25T01:30',
      '2026-10-25T02:30',
    ]);
    expect(ticks('*/10 * * * *', '2026-10-24T23:55:00Z', 13)).toHaveLength(13);
    expect(ticks('*/10 * * * *', '2026-10-24T23:55:00Z', 13).at(-1)).toBe('2026-10-25T02:00');
  });

  it('reports its error', () => {
    for (const [text, detail] of [
      ['* * * *', '5 fields'],
      ['* * * * * * *', 'not 7'],
      ['@daily', 'not 1'],
      ['61 * * * *', 'out of range'],
      ['0 0 31 2 *', 'never fires'],
      ['a b c d e', 'is not a cron expression'],
      ['', '5 fields'],
    ] as const) {
      expect([text, Cron.parse(text, 'UTC')]).toEqual([
        text,
        { kind: 'faulty', pointer: '/cron', detail: expect.stringContaining(detail) },
      ]);
    }
    for (const zone of ['Mars/Base', '', '+02:00', 'Europe/Warsaw ', '\u0000'])
      expect([zone, Cron.parse('* * * * *', zone)]).toEqual([
        zone,
        expect.objectContaining({ pointer: '/timezone' }),
      ]);
  });
});

describe('the due ticks', () => {
  const due = (text: string, next: string, now: string, onMissed: OnMissed = 'one') => {
    const {
      ticks: found,
      nextAt,
      missedFrom,
    } = dueTicks(cronOf(text, 'UTC'), new Date(next), new Date(now), onMissed);
    return { ticks: utc(found), nextAt: nextAt.toISOString(), missed: missedFrom !== undefined };
  };

  it('are those up to now, and the next one is after now', () => {
    expect(due('0 * * * *', '2026-01-01T10:00:00Z', '2026-01-01T10:00:00.004Z')).toEqual({
      ticks: ['2026-01-01T10:00'],
      nextAt: '2026-01-01T11:00:00.000Z',
      missed: false,
    });
  });

  it('include every tick that is only late, under every policy', () => {
    for (const policy of ['one', 'skip', 'all'] as const) {
      const { ticks: found } = dueTicks(
        cronOf('* * * * * *', 'UTC'),
        new Date('2026-01-01T10:00:00Z'),
        new Date('2026-01-01T10:00:59.900Z'),
        policy,
      );
      expect([policy, found.length]).toEqual([policy, 60]);
    }
  });

  it('include the last, none or all of the missed ones, by policy', () => {
    const late = ['2026-01-01T10:00:00Z', '2026-01-01T13:30:00Z'] as const;
    expect(due('0 * * * *', ...late, 'one')).toMatchObject({ ticks: ['2026-01-01T13:00'], missed: true });
    expect(due('0 * * * *', ...late, 'skip')).toEqual({
      ticks: [],
      nextAt: '2026-01-01T14:00:00.000Z',
      missed: true,
    });
    expect(due('0 * * * *', ...late, 'all').ticks).toEqual([
      '2026-01-01T10:00',
      '2026-01-01T11:00',
      '2026-01-01T12:00',
      '2026-01-01T13:00',
    ]);
  });

  it('are limited and found quickly after a year', () => {
    const year = ['2025-01-01T10:00:00Z', '2026-01-01T10:00:00.500Z'] as const;
    const [second, all] = (['one', 'all'] as const).map((policy) =>
      dueTicks(cronOf('* * * * * *', 'UTC'), new Date(year[0]), new Date(year[1]), policy),
    );
    expect(second!.ticks).toHaveLength(61);
    expect(second!.ticks[0]!.toISOString()).toBe('2026-01-01T09:59:00.000Z');
    expect(all!.ticks).toHaveLength(MAX_MISSED + 60);
    expect(due('0 0 1 1 *', '2001-01-01T00:00:00Z', '2026-06-01T00:00:00Z').ticks).toEqual([
      '2026-01-01T00:00',
    ]);
  });
});
