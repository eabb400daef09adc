import { expect, it } from '@jest/globals';
import { leftOutLines } from './rebuild.ts';

it('lists messages that a rebuild has left out, with who decided that and why', () => {
  const message = { source: 'urn:s', error: 'Error: broken' };
  const leftOutMessages = [
    { ...message, id: 'm-1', reason: 'a test message', by: 'ada' },
    { ...message, id: 'm-2', reason: null, by: 'recordFailures' },
  ];
  expect(leftOutLines({ leftOut: 5, leftOutMessages })).toEqual([
    '  5 messages were left out',
    '    m-1 (urn:s): Error: broken; left out by ada: a test message',
    '    m-2 (urn:s): Error: broken; recorded',
    '    and 3 more',
  ]);
});
