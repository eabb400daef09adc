import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import '../../../test/support/property-seed.ts';
import { Cron } from './cron.ts';
import { cronFault } from './cron-fields.ts';

describe('the check of a cron expression', () => {
  it.each([
    '* * * * *',
    '*/10 * * * *',
    '0 0 9-17/2 * * mon-fri',
    '5,10-20/5,50/3 0,12 1,15 JAN-Mar,12 0,7',
    '\t0  0 29 2 * ',
    '0 0 31 2 1',
    '0 0 * * 5-7',
    '*/60 */24 */31 */12 */7',
    `${Array.from({ length: 60 }, (_, n) => n)} ${Array.from({ length: 24 }, (_, n) => n)} * * *`,
  ])('accepts %s', (cron) => {
    expect(cronFault(cron)).toBeUndefined();
    expect(Cron.parse(cron, 'UTC')).toMatchObject({ kind: 'valid' });
  });

  it.each([
    ['60 * * * *', 'has "60" in its minute field; allowed: 0 to 59, as *, a, a-b, */n, a/n or a-b/n'],
    ['60 0 * * * *', 'has "60" in its second field; allowed: 0 to 59'],
    ['0 24 * * *', 'has "24" in its hour field; allowed: 0 to 23'],
    ['0 0 0 * *', 'has "0" in its day of month field; allowed: 1 to 31'],
    ['0 0 1 13 *', 'has "13" in its month field; allowed: 1 to 12 or jan to dec'],
    ['0 0 1 0-5 *', 'has "0-5" in its month field'],
    ['0 0 * * 8', 'has "8" in its day of week field; allowed: 0 to 7 (0 and 7 are Sunday) or sun to sat'],
    ['mon * * * *', 'has "mon" in its minute field'],
    ['0 0 * mon *', 'has "mon" in its month field'],
    ['0 0 * * jan', 'has "jan" in its day of week field'],
    ['0 0 * * monday', 'has "monday" in its day of week field'],
    ['0 17-9 * * *', 'has "17-9" in its hour field: the range must ascend'],
    ['0 0 * * fri-mon', 'has "fri-mon" in its day of week field: the range must ascend'],
    ['*/0 * * * *', 'has "*/0" in its minute field; a step must be a whole number, 1 to 60'],
    ['*/90 * * * *', 'has "*/90" in its minute field; a step must be a whole number, 1 to 60'],
    ['*/1e9 * * * *', 'has "*/1e9" in its minute field'],
    ['*/-1 * * * *', 'has "*/-1" in its minute field'],
    ['1,,2 * * * *', 'has "" in its minute field'],
    ['1- * * * *', 'has "1-" in its minute field'],
    ['** * * * *', 'has "**" in its minute field'],
    ['1.5 * * * *', 'has "1.5" in its minute field'],
    ['٣ * * * *', 'has "٣" in its minute field'],
    ['５ * * * *', 'has "５" in its minute field'],
    ['0 0 L * *', 'has "L" in its day of month field'],
    ['0 0 ? * *', 'has "?" in its day of month field'],
    [`${'9'.repeat(200)} * * * *`, `has "${'9'.repeat(40)}…" in its minute field`],
    ['0 0 30 2 *', 'never fires'],
    ['0 0 31 2,4,6,9,11 *', 'never fires'],
    ['0 0 0 30,31 feb 0-7', 'never fires'],
    ['0 0 31 4,6 *,1', 'never fires'],
    ['@daily', 'must have 5 fields, or 6 with seconds first, not 1'],
    ['* * * *', 'must have 5 fields, or 6 with seconds first, not 4'],
    ['', 'must have 5 fields'],
    [`${'*,'.repeat(130)}* * * * *`, 'must not be longer than 256 characters'],
  ])('reports the error in %j', (cron, detail) => {
    expect(cronFault(cron)).toContain(detail);
  });

  it('does not read a text that is too long', () => {
    for (const part of [' ', '*,', '1-', '*/', '9'])
      expect(cronFault(part.repeat(8_000_000))).toContain('must not be longer than 256 characters');
  });

  const number = fc.oneof(fc.nat({ max: 61 }), fc.nat()).map(String);
  const name = fc.constantFrom(
    'jan',
    'DEC',
    'sun',
    'Sat',
    'feb',
    'noon',
    '*',
    '?',
    'L',
    '',
    '٣',
    '1e9',
    '-1',
    '\u0000',
  );
  const value = fc.oneof({ weight: 4, arbitrary: number }, { weight: 1, arbitrary: name });
  const range = fc.oneof(
    fc.constant('*'),
    value,
    fc.tuple(value, value).map(([from, to]) => `${from}-${to}`),
  );
  const item = fc.oneof(
    range,
    fc.tuple(range, value).map(([whole, step]) => `${whole}/${step}`),
  );
  const list = fc.array(item, { minLength: 1, maxLength: 6 }).map(String);
  /** Within the limits of all fields, or next to them. */
  const small = fc.oneof(
    { weight: 9, arbitrary: fc.nat({ max: 7 }) },
    { weight: 1, arbitrary: fc.nat({ max: 61 }) },
  );
  const ascending = fc
    .tuple(
      small,
      small,
      fc.option(
        small.map((step) => `/${step + 1}`),
        { nil: '' },
      ),
    )
    .map(([from, more, step]) => `${from + 1}-${from + more + 1}${step}`);
  const likely = fc.array(fc.oneof(fc.constant('*'), ascending), { minLength: 1, maxLength: 2 }).map(String);
  const expression = fc.oneof(
    fc.array(likely, { minLength: 5, maxLength: 6 }).map((fields) => fields.join(' ')),
    fc.array(list, { minLength: 4, maxLength: 7 }).map((fields) => fields.join(' ')),
    fc.string({ unit: 'binary', maxLength: 300 }),
    fc.string({ unit: fc.constantFrom(...'0123456789*/-, LW#?@jan\t\u00a0'), maxLength: 300 }),
  );

  it('never throws, and the library accepts and fires what it accepts', () => {
    let taken = 0;
    fc.assert(
      fc.property(expression, (cron) => {
        const fault = cronFault(cron);
        if (fault !== undefined) return expect(typeof fault).toBe('string');
        taken++;
        const parsed = Cron.parse(cron, 'UTC');
        if (parsed.kind === 'faulty') throw new Error(parsed.detail);
        const now = new Date();
        expect(parsed.cron.after(now) > now).toBe(true);
      }),
      { numRuns: 5_000 },
    );
    expect(taken).toBeGreaterThan(20);
  });
});
