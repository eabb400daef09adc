import { pin } from '../harness/pin.mjs';
import { drainRounds } from '../harness/rounds.mjs';
import { compare } from '../harness/verdict.mjs';

/*
 * Sluice against itself: the same messages with and without a disturbance that must not matter. The rate is that of the
 * other keys, until 95 % of them are handled: the last ones may share a lane with the disturbance and wait.
 */

const SLUICE = 'contenders/sluice.mjs';

async function pair(context, name, target, plain, troubled, referenceName) {
  const rows = await drainRounds(context, [
    { label: 'without', module: SLUICE, ...plain },
    { label: name, module: SLUICE, ...troubled },
  ]);
  const ours = rows.get(name);
  return [compare({ name, ours, reference: rows.get('without'), referenceName, unit: 'messages/s', target })];
}

function othersOf(messages) {
  return { warmUp: messages / 5, until: messages * 0.95, complete: false };
}

export const hotKey = {
  name: 'hot-key',
  run(context) {
    const messages = context.quick ? 20_000 : 60_000;
    const drain = othersOf(messages);
    // The same rows on the same pages: where nine of ten rows belong to the hot key, each page has fewer rows of the others.
    const cooled = { seed: { messages, hot: 0.9, cooled: true }, drain };
    const hot = { seed: { messages, hot: 0.9 }, drain };
    return pair(context, 'hot-key', 0.9, cooled, hot, 'the hot key finished already');
  },
};

export const poisonedKey = {
  name: 'poisoned-key',
  run(context) {
    const messages = context.quick ? 20_000 : 60_000;
    const drain = othersOf(messages);
    const behind = context.quick ? 50_000 : 500_000;
    const plain = { seed: { messages }, drain };
    return pair(
      context,
      'poisoned-key',
      0.9,
      plain,
      { seed: { messages, behind }, drain },
      'without a held key',
    );
  },
};

export const slowPrepare = {
  name: 'slow-prepare',
  run(context) {
    const messages = context.quick ? 20_000 : 60_000;
    const drain = othersOf(messages);
    const plain = { seed: { messages }, drain };
    return pair(
      context,
      'slow-prepare',
      0.9,
      plain,
      { seed: { messages, slow: 10 }, drain },
      'without prepare',
    );
  },
};

/** Long enough that the result is not dominated by reading a new copy of the table into memory. */
export const history = {
  name: 'history',
  run(context) {
    const messages = context.quick ? 20_000 : 200_000;
    const beside = context.quick ? 500_000 : 5_000_000;
    const drain = { warmUp: messages / 5, until: messages };
    const plain = { seed: { messages }, drain };
    return pair(
      context,
      'history',
      0.9,
      plain,
      { seed: { messages, history: beside }, drain },
      'empty beside',
    );
  },
};

/** The longer the snapshot is open, the more dead row versions every claim steps over; so a fixed time, not a fixed number of messages. */
export const pinnedSnapshot = {
  name: 'pinned-snapshot',
  run(context) {
    const seconds = context.quick ? 20 : 60;
    // More than a fast machine handles in that time; if it runs out nevertheless, the round ends.
    const messages = seconds * 25_000;
    const plain = { seed: { messages }, drain: { warmUp: 5_000, seconds, until: messages, complete: false } };
    return pair(context, 'pinned-snapshot', 0.7, plain, { ...plain, beside: pin }, 'nothing open elsewhere');
  },
};
