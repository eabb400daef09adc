import { gzipSync } from 'node:zlib';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { jsonText } from '../../test/support/json-texts.ts';
import { blocksOf, MAX_BLOCK_BYTES, MAX_BLOCK_MESSAGES } from './block.ts';
import { decodeBlock, encodeBlock } from './block-format.ts';
import type { HistoryMessage } from './history-message.ts';

const text = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 });
const message: fc.Arbitrary<HistoryMessage> = fc.record({
  applied: fc.maxSafeNat(),
  position: fc.maxSafeNat(),
  lane: fc.nat({ max: 255 }),
  id: text,
  source: text,
  type: fc.constantFrom('urn:a', 'urn:b'),
  key: text,
  payload: jsonText,
  headers: fc.option(fc.dictionary(fc.stringMatching(/^[a-z]{1,5}$/), text)),
  occurredAt: fc.option(fc.constantFrom('2026-01-31T12:00:00.123456Z', '0001-01-01T00:00:00.000000Z')),
  receivedMs: fc.nat({ max: 4_000_000_000_000 }),
});
const messageAt = (position: number, more: Partial<HistoryMessage> = {}): HistoryMessage => ({
  ...{ applied: 1, position, lane: 0, id: `m-${position}`, source: 's', type: 't', key: 'k', payload: '1' },
  ...{ headers: null, occurredAt: null, receivedMs: 0 },
  ...more,
});

describe('a block', () => {
  it('has every message exactly as it was written, the text of each payload included', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(message, { minLength: 1, maxLength: 20 }), async (messages) => {
        const decoded = await decodeBlock(await encodeBlock(messages));
        expect(decoded).toEqual(messages);
        expect(decoded.map(({ payload }) => payload)).toEqual(messages.map(({ payload }) => payload));
      }),
      { numRuns: 300 },
    );
  });

  it('keeps numbers, escapes, spaces and the order of members of a payload', async () => {
    const payloads = ['1.0', '-0', '1e3', '"\\u0041é😀"', '{"b" : 1,\n"a":2}', '"\\u0000"', '"\\ud800"'];
    const messages = payloads.map((payload, index) => messageAt(index, { payload }));
    const decoded = await decodeBlock(await encodeBlock(messages));
    expect(decoded.map(({ payload }) => payload)).toEqual(payloads);
  });

  it('of a later format is refused, not misread', async () => {
    await expect(decodeBlock(gzipSync('{"version":2}\n'))).rejects.toThrow('has the format 2');
  });
});

describe('messages are split into blocks', () => {
  it('by lane group and by kind, in the order of application', async () => {
    const messages = [
      messageAt(4, { lane: 15, applied: 2 }),
      messageAt(3, { lane: 16 }),
      messageAt(2, { type: 'u' }),
      messageAt(1, { applied: 3 }),
      messageAt(5, { lane: 1 }),
    ];
    const blocks = await blocksOf(messages, ({ type }) => type);
    expect(blocks.map((block) => [block.laneGroup, block.messages.map(({ position }) => position)])).toEqual([
      [0, [2]],
      [1, [3]],
      [0, [5, 4, 1]],
    ]);
  });

  it('that are limited in messages and in bytes; a larger payload has its own', async () => {
    const many = Array.from({ length: MAX_BLOCK_MESSAGES + 1 }, (_, index) => messageAt(index));
    expect((await blocksOf(many, () => 0)).map(({ messages }) => messages.length)).toEqual([
      MAX_BLOCK_MESSAGES,
      1,
    ]);
    const large = [1, 2, 3, 4].map((n) =>
      messageAt(n, { payload: `"${'x'.repeat((MAX_BLOCK_BYTES * n) / 3)}"` }),
    );
    expect((await blocksOf(large, () => 0)).map(({ messages }) => messages.length)).toEqual([1, 1, 1, 1]);
    const fitting = [1, 2, 3].map((n) => messageAt(n, { payload: 'x'.repeat(MAX_BLOCK_BYTES / 2) }));
    expect((await blocksOf(fitting, () => 0)).map(({ messages }) => messages.length)).toEqual([2, 1]);
  });
});
