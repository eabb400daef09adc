import { describe, expect, it } from '@jest/globals';
import { duration, percent, perSecond, relative } from '../../console/src/format.ts';
import { chaptersOf } from '../../console/src/screens/guide/chapters.ts';
import { definitionOf, destinationOf, textsOf } from '../../console/src/screens/listeners/definition-form.ts';
import { curlOf } from '../../console/src/screens/messages/curl.ts';
import { cronWords } from '../../console/src/screens/schedules/cron-words.ts';

describe('a cron expression in words', () => {
  it.each([
    ['* * * * *', 'every minute'],
    ['*/10 * * * *', 'every 10 minutes'],
    ['0 * * * *', 'every hour'],
    ['15 * * * *', 'every hour at minute 15'],
    ['0 */6 * * *', 'every 6 hours'],
    ['30 2 * * *', 'at 02:30'],
    ['30 2 * * 1-5', 'at 02:30 from Monday to Friday'],
    ['0 6,18 * * SAT,SUN', 'at 06:00 and 18:00 on Saturday and Sunday'],
    ['0 6 1 * *', 'at 06:00 on day 1 of the month'],
    ['0 6 24 12 *', 'at 06:00 on day 24 of the month in December'],
    ['*/5 9-17 * * *', 'every 5 minutes from 09:00 to 17:59'],
    ['0 30 2 * * *', 'at 02:30'],
  ])('says %s as "%s"', (cron, words) => {
    expect(cronWords(cron)).toBe(words);
  });

  it.each(['1-10/3 * * * *', '0 6 1 * 1', '0 6 L * *', '*/30 * * * * *', 'nonsense'])(
    'leaves %s as it is',
    (cron) => {
      expect(cronWords(cron)).toBe(cron);
    },
  );
});

describe('numbers', () => {
  it('have units and are short', () => {
    expect([0, 0.0042, 4.25, 61, 3_600, 200_000].map(duration)).toEqual([
      '0 s',
      '4 ms',
      '4.3 s',
      '61 s',
      '60 min',
      '2 d',
    ]);
    expect([0, 0.01, 9.84, 14_551].map(perSecond)).toEqual(['0/s', '<0.1/s', '9.8/s', '14.6k/s']);
    expect(relative(1_000, 13_000)).toBe('12 s ago');
    expect(relative(73_000, 1_000)).toBe('in 72 s');
  });

  it('never round a failure away', () => {
    expect([1, 0.99996, 0.5, null].map(percent)).toEqual(['100 %', '99.9 %', '50 %', '–']);
  });
});

describe('a message as curl', () => {
  it('has the payload as exactly its text, safe for a shell', () => {
    const command = curlOf(
      { id: `it's`, type: 't', key: 'k', headers: {} },
      '{"a":1.0}',
      'https://example.com/x/',
    );
    expect(command).toContain(`'https://example.com/x/v1/messages'`);
    expect(command).toContain(`--data-binary '{"id":"it'\\''s","type":"t","key":"k","payload":{"a":1.0}}'`);
  });
});

describe('the form of a listener', () => {
  it('sends what is filled in, and leaves out what belongs to the other mode', () => {
    const texts = {
      ...textsOf(undefined),
      types: 'a\n b*\n',
      url: 'https://example.com',
      lease: '5m',
      lanes: '4',
      rateLimit: '{"perSecond":3}',
    };
    expect(definitionOf(texts)).toEqual({
      mode: 'webhook',
      url: 'https://example.com',
      types: ['a', 'b*'],
      ordered: true,
      onDead: 'skip',
      lanes: 4,
      rateLimit: { perSecond: 3 },
      format: 'standard',
    });
  });

  it('of a sink has its broker, and never what the service hides', () => {
    const nats = { servers: ['nats://broker.example:4222'], subject: 'x.{key}' };
    const listener = { mode: 'nats', types: ['a'], nats, credentials: { username: '(hidden)' } } as never;
    expect(definitionOf(textsOf(listener))).toEqual({ mode: 'nats', types: ['a'], nats });
    expect(destinationOf(listener)).toBe('nats: x.{key} at nats://broker.example:4222');
  });

  it('leaves what is no JSON to the validation of the service', () => {
    expect(definitionOf({ ...textsOf(undefined), headers: '{oops' })).toMatchObject({ headers: '{oops' });
  });
});

describe('the operating guide', () => {
  it('is cut into chapters with the anchors that alerts and attention use', () => {
    const [first, second] = chaptersOf(
      '# Title\n\nintro\n\n## Who did that?\ntext\n\n### more\n\n## The next, one\nend',
    );
    expect(first).toEqual({ title: 'Who did that?', anchor: 'who-did-that', text: 'text\n\n### more\n\n' });
    expect(second).toMatchObject({ anchor: 'the-next-one', text: 'end' });
  });
});
