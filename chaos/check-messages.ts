import { createHash } from 'node:crypto';
import type { History, MessageRow } from './history.ts';
import { type Violation, violation } from './violation.ts';

/** The hold is set after the failure was noted, by the same clock, in whole milliseconds. */
const CLOCK_MS = 1;

/** From the posts to the read model. */
export function checkMessages(history: History): Violation[] {
  return [
    ...lost(history),
    ...refused(history),
    ...once(history),
    ...fold(history),
    ...orderAsPosted(history),
    ...deadLetters(history),
    ...superseded(history),
    ...sent(history),
    ...early(history),
  ];
}

function lost({ posted, messages }: History): Violation[] {
  const there = new Map(messages.map((row) => [row.id, row]));
  return posted.flatMap(({ id, outcome, payload }) => {
    if (outcome !== 'accepted') return [];
    const row = there.get(id);
    if (!row) return [violation('nothing accepted is lost', `${id} was accepted and is not there`)];
    return row.text === payload
      ? []
      : [violation('bytes as posted', `${id} is stored as ${row.text} instead of ${payload}`)];
  });
}

/** Nor is anything there that nobody posted. */
function refused({ posted, messages }: History): Violation[] {
  const known = new Map(posted.map((one) => [one.id, one]));
  return messages.flatMap(({ id, type }) => {
    const one = known.get(id);
    if (one?.outcome === 'refused')
      return [violation('nothing refused is applied', `${id} was refused and is there`)];
    return one || type === 'sent'
      ? []
      : [violation('nothing refused is applied', `${id} is there and was not posted`)];
  });
}

/** Finished ones have one effect, others none. */
function once({ messages, effects }: History): Violation[] {
  const times = new Map(effects.map(({ id, times }) => [id, times]));
  const rows = new Map<string, number>();
  for (const { id } of messages) rows.set(id, (rows.get(id) ?? 0) + 1);
  return messages.flatMap(({ id, status }) => {
    const seen = times.get(id) ?? 0;
    const wanted = status === 'finished' ? 1 : 0;
    if (rows.get(id)! > 1)
      return [violation('the effect is there once', `${id} is stored ${rows.get(id)} times`)];
    return seen === wanted
      ? []
      : [violation('the effect is there once', `${id} is ${status} and was applied ${seen} times`)];
  });
}

/** The chain of a key is the one its finished messages make in the order of their positions. */
function fold({ messages, chains }: History): Violation[] {
  const expected = new Map<string, { n: number; hash: string }>();
  for (const { key, id, status } of messages) {
    if (status !== 'finished') continue;
    const { n, hash } = expected.get(key) ?? { n: 0, hash: '' };
    const next = createHash('md5').update(hash + id);
    expected.set(key, { n: n + 1, hash: next.digest('hex') });
  }
  const wrong = chains.flatMap(({ key, n, hash }) => {
    const made = expected.get(key);
    if (made?.n === n && made.hash === hash) return [];
    const detail = `the chain of ${key} has ${n} links and is not the fold of its ${made?.n ?? 0} finished messages`;
    return [violation('the read model is the fold', detail)];
  });
  if (chains.length === expected.size) return wrong;
  return [
    ...wrong,
    violation(
      'the read model is the fold',
      `${chains.length} chains for ${expected.size} keys with finished messages`,
    ),
  ];
}

/** A producer posts the messages of a key one after the other: so they must stand. */
function orderAsPosted({ posted, messages }: History): Violation[] {
  const positions = new Map(messages.map(({ id, position }) => [id, position]));
  const last = new Map<string, { id: string; position: number }>();
  const violations: Violation[] = [];
  for (const { id, key, outcome, scheduled } of posted) {
    const position = positions.get(id);
    if (outcome !== 'accepted' || scheduled || position === undefined) continue;
    const before = last.get(key);
    if (before && before.position > position)
      violations.push(
        violation('order as posted', `${id} was posted after ${before.id} and stands before it`),
      );
    last.set(key, { id, position });
  }
  return violations;
}

/** Only the guilty die, nobody beyond the last attempt, and nothing of the key passes a dead letter. */
function deadLetters({ messages, terms }: History): Violation[] {
  const most = terms.retriesMs.length + 1;
  const deadAt = new Map<string, number>();
  const violations: Violation[] = [];
  const blame = (detail: string) =>
    violations.push(violation('dead letters: only the guilty, nothing passes them', detail));
  for (const { position, id, key, payload, status, attempt, error } of messages) {
    const dead = deadAt.get(key);
    if (dead !== undefined && status === 'finished') blame(`${id} passed the dead letter at ${dead}`);
    if (attempt > most)
      violations.push(
        violation('inbox attempts within the maximum', `${id} has ${attempt} attempts of ${most}`),
      );
    if (status !== 'dead') continue;
    deadAt.set(key, position);
    const { refuses, fails = 0, kills = 0, cuts = 0 } = payload ?? {};
    if (!refuses && fails < most && kills + cuts < most)
      blame(`${id} died without guilt: ${error}; it has ${JSON.stringify(payload)}`);
  }
  return violations;
}

function superseded({ messages }: History): Violation[] {
  const byPosition = new Map(messages.map((row) => [row.position, row]));
  return messages.flatMap((row) => {
    if (row.status !== 'superseded') return [];
    const winner = byPosition.get(row.superseded_by ?? 0);
    const rightly = winner?.key === row.key && winner.type === 'edit' && winner.position > row.position;
    if (rightly && row.type === 'edit') return [];
    return [violation('superseded by a later one of its slot', `${row.id} was superseded by ${winner?.id}`)];
  });
}

/** What a message sends is there once if it was applied, and not at all if not. */
function sent({ messages }: History): Violation[] {
  const children = new Map<string, number>();
  const isSent = ({ type }: MessageRow) => type === 'sent';
  for (const { payload } of messages.filter(isSent)) {
    children.set(payload!.parent!, (children.get(payload!.parent!) ?? 0) + 1);
  }
  return messages.flatMap((row) => {
    if (isSent(row)) return [];
    const wanted = row.status === 'finished' && row.payload?.sendsTo ? 1 : 0;
    const seen = children.get(row.id) ?? 0;
    if (seen === wanted) return [];
    const detail = `${row.id} is ${row.status} and sent ${seen} messages instead of ${wanted}`;
    return [violation('sent with the effect', detail)];
  });
}

/**
 * The attempt after a failure comes when the hold of that failure is over, unless an operator ended it. A failure that
 * could not be written is nobody's attempt: the same number comes again, at any time.
 */
function early({ messages, deeds, operated, terms }: History): Violation[] {
  const letGo = new Set(operated);
  const exempt = new Set(messages.filter(({ key }) => letGo.has(key)).map(({ id }) => id));
  const failedAt = new Map<string, number>();
  return deeds.flatMap(({ id, what, attempt, atMs }) => {
    if (what === 'fail') failedAt.set(`${id} ${attempt}`, atMs);
    const before = failedAt.get(`${id} ${attempt - 1}`);
    if (what !== 'try' || before === undefined || exempt.has(id)) return [];
    const least = terms.retriesMs[attempt - 2]!;
    if (atMs - before + CLOCK_MS >= least) return [];
    const detail = `${id} was tried ${Math.round(atMs - before)} ms after it had failed instead of ${least}`;
    return [violation('a retry waits its time', detail)];
  });
}
