import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { withoutEcho } from './url-echo.ts';

const URL_WITH_SECRETS = 'https://hooks.example/in/T0C4NARY99/x?sig=c4n%2Fary%26s3cr3t&v=1';

const excerptOf = (excerpt: string, url = URL_WITH_SECRETS) => {
  const result = withoutEcho({ kind: 'responded', status: 404, excerpt, durationMs: 1 }, url);
  return (result as { excerpt: string }).excerpt;
};

describe('the stored part of a response', () => {
  it.each([
    ['Cannot POST /in/T0C4NARY99/x?sig=c4n%2Fary%26s3cr3t&v=1!', 'Cannot POST …!'],
    ['Cannot POST /in/T0C4NARY99/x', 'Cannot POST …'],
    ['<pre>/in/T0C4NARY99/x?sig=c4n%2Fary%26s3cr3t&amp;v=1</pre>', '<pre>…</pre>'],
    ['{"path":"\\/in\\/T0C4NARY99\\/x"}', '{"path":"…"}'],
    ['no workspace T0C4NARY99', 'no workspace …'],
    ['bad sig c4n/ary&s3cr3t', 'bad sig …'],
    ['bad sig c4n%2Fary%26s3cr3t', 'bad sig …'],
    ['bad sig c4n/ary&amp;s3cr3t', 'bad sig …'],
    [
      'https://hooks.example/in/T0C4NARY99/x?sig=c4n%2Fary%26s3cr3t&v=1 is gone',
      'https://hooks.example… is gone',
    ],
    ['status 404', 'status 404'],
    ['', ''],
  ])('does not contain path and query: %s', (excerpt, kept) => {
    expect(excerptOf(excerpt)).toBe(kept);
  });

  it('is not changed if the URL contains only words', () => {
    for (const url of ['https://a.example/', 'https://a.example/hook', 'https://a.example/v1?a=b'])
      expect(excerptOf('/hook v1 a=b /', url)).toBe('/hook v1 a=b /');
  });

  it('does not end with the beginning of a hidden text that was cut off', () => {
    const path = '/in/T0C4NARY99/x';
    for (let length = 6; length < path.length; length++)
      expect(excerptOf(`${'.'.repeat(1_010)}${path.slice(0, length)}`)).not.toContain('T0');
  });

  it('never contains a long segment or value, whatever surrounds it', () => {
    const secret = fc.stringMatching(/^[A-Za-z0-9_-]{8,40}$/);
    fc.assert(
      fc.property(secret, secret, fc.string(), fc.string(), (segment, value, before, after) => {
        const url = `https://a.example/${segment}?q=${value}`;
        for (const reported of [segment, value, `/${segment}?q=${value}`]) {
          const kept = excerptOf(before + reported + after, url);
          expect([segment, value].filter((one) => kept.includes(one))).toEqual([]);
        }
      }),
    );
  });
});
