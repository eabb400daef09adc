import { Listeners } from '../../src/listeners/listeners.ts';
import { FanOut, type FanOutMessage } from '../../src/outbox/fan-out/fan-out.ts';
import { EntryWriter } from '../../src/topics/entry-writer.ts';
import { Topics } from '../../src/topics/topics.ts';
import { replaceMethod } from '../change-code.ts';

/** Planted bugs of what is created in the middle of a run; see bugs.ts. */
export const ADDITION_BUGS = {
  /** The topics of a batch are read before it is applied, the revision that is compared after that. */
  topicsReadEarly: () =>
    replaceMethod(
      FanOut,
      'entriesFor',
      () =>
        function (messages) {
          return new EntryWriter(
            messages,
            topicsAsOfNow((this as unknown as FanOutInternals).topics, messages),
          );
        },
    ),
  /** Messages are applied with the topics that the replica knows, whatever has changed. */
  topicRevision: () => replaceMethod(Topics, 'stillCurrent', () => async () => undefined),
  /** The same with listeners. */
  listenerRevision: () => replaceMethod(Listeners, 'stillCurrent', () => async () => undefined),
} as const;

/** Private members. */
interface FanOutInternals {
  readonly topics: Topics;
}

/** Its revision is read when it is needed. */
function topicsAsOfNow(topics: Topics, messages: readonly FanOutMessage[]): Topics {
  const known = new Map(messages.map(({ type }) => [type, topics.of(type)]));
  return Object.create(topics, { of: { value: (type: string) => known.get(type) } }) as Topics;
}
