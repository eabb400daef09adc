import { COUNT, list, named, nullable, object, type Shown, TEXT, TIME } from '../../http/schema.ts';

const COMPLETE_FROM = {
  ...nullable(TIME),
  description: 'Messages that were received before may be missing; null: none is missing.',
};

export const HISTORY = named(
  'History',
  object({
    messages: COUNT,
    blocks: COUNT,
    bytes: { ...COUNT, description: 'Of the blocks, compressed.' },
    oldest: { ...nullable(TIME), description: 'When the oldest message was received.' },
    newest: nullable(TIME),
    types: list(
      object({
        pattern: { ...TEXT, description: 'As in HISTORY.' },
        kept: { ...TEXT, description: 'A duration, or "forever".' },
        completeFrom: COMPLETE_FROM,
      }),
    ),
  }),
);
export type HistoryView = Shown<typeof HISTORY>;

export const IMPORTED = named(
  'ImportedHistory',
  object({
    imported: COUNT,
    duplicates: { ...COUNT, description: 'Messages that were there already, with the same content.' },
  }),
);

export const ERASED = named(
  'ErasedHistory',
  object({
    erased: COUNT,
    inInbox: {
      ...COUNT,
      description:
        'Messages of the key that are still in the inbox, and will be moved to history after their retention.',
    },
  }),
);

export const LINES = {
  content: { 'application/x-ndjson': { schema: { type: 'string' } } },
  headers: {
    'next-cursor': { description: 'The `cursor` of the next page; absent on the last page.', schema: TEXT },
  },
} as const;

export const LINES_BODY = {
  required: true,
  content: { 'application/x-ndjson': { schema: { type: 'string' } } },
} as const;
