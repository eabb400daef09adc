import * as s from '../../http/schema.ts';

const COMPLETE_FROM = {
  ...s.nullable(s.TIME),
  description: 'Messages that were received before may be missing; null: none is missing.',
};

export const HISTORY = s.named(
  'History',
  s.object({
    messages: s.COUNT,
    blocks: s.COUNT,
    bytes: { ...s.COUNT, description: 'Of the blocks, compressed.' },
    oldest: { ...s.nullable(s.TIME), description: 'When the oldest message was received.' },
    newest: s.nullable(s.TIME),
    types: s.list(
      s.object({
        pattern: { ...s.TEXT, description: 'As in HISTORY.' },
        kept: { ...s.TEXT, description: 'A duration, or "forever".' },
        completeFrom: COMPLETE_FROM,
      }),
    ),
  }),
);
export type HistoryView = s.Shown<typeof HISTORY>;

export const IMPORTED = s.named(
  'ImportedHistory',
  s.object(
    {
      imported: s.COUNT,
      duplicates: { ...s.COUNT, description: 'Messages that were there already, with the same content.' },
    },
    {
      ofOtherCells: {
        ...s.COUNT,
        description:
          'Only with CELLS: messages that were left out, because their keys belong to other cells.',
      },
    },
  ),
);

export const ERASED = s.named(
  'ErasedHistory',
  s.object({
    erased: s.COUNT,
    inInbox: {
      ...s.COUNT,
      description:
        'Messages of the key that are still in the inbox, and will be moved to history after their retention.',
    },
  }),
);

export const LINES = {
  content: { 'application/x-ndjson': { schema: { type: 'string' } } },
  headers: {
    'next-cursor': { description: 'The `cursor` of the next page; absent on the last page.', schema: s.TEXT },
  },
} as const;

export const LINES_BODY = {
  required: true,
  content: { 'application/x-ndjson': { schema: { type: 'string' } } },
} as const;
