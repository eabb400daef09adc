import { Folds } from './folds.ts';
import type { History, MessageRow } from './history.ts';
import { SCHEDULE } from './operator/operator-history.ts';
import { type Violation, violation } from './violation.ts';

/** The hold is set after the failure was recorded, by the same clock, in whole milliseconds. */
const CLOCK_MS = 1;

/** From the posts to the read model. */
export function checkMessages(history: History): Violation[] {
  const checks = [
    lostMessages,
    refusedMessages,
    effectsOnce,
    fold,
    orderAsPosted,
    deadLetters,
    superseded,
    sent,
    earlyRetries,
  ];
  return checks.flatMap((one) => one(history));
}

function lostMessages({ posted, messages }: History): Violation[] {
  const stored = new Map(messages.map((row) => [row.id, row]));
  return posted.flatMap(({ id, outcome, payload }) => {
    if (outcome !== 'accepted') return [];
    const row = stored.get(id);
    if (!row) return [violation('nothing accepted is lost', `${id} was accepted and is not stored`)];
    return row.text === payload
      ? []
      : [violation('bytes as posted', `${id} is stored as ${row.text} instead of ${payload}`)];
  });
}

/** Nor is a message stored that was never posted. */
function refusedMessages({ posted, messages }: History): Violation[] {
  const known = new Map(posted.map((one) => [one.id, one]));
  return messages.flatMap(({ id, type }) => {
    const one = known.get(id);
    if (one?.outcome === 'refused')
      return [violation('nothing refused is applied', `${id} was refused and is stored`)];
    return one || type === 'sent' || id.startsWith(`${SCHEDULE}/`)
      ? []
      : [violation('nothing refused is applied', `${id} is stored and was not posted`)];
  });
}

/** Finished messages have one effect, others none. */
function effectsOnce({ messages, effects }: History): Violation[] {
  const times = new Map(effects.map(({ id, times }) => [id, times]));
  const rows = new Map<string, number>();
  for (const { id } of messages) rows.set(id, (rows.get(id) ?? 0) + 1);
  return messages.flatMap(({ id, status }) => {
    const seen = times.get(id) ?? 0;
    const wanted = status === 'finished' ? 1 : 0;
    if (rows.get(id)! > 1)
      return [violation('applied exactly once', `${id} is stored ${rows.get(id)} times`)];
    return seen === wanted
      ? []
      : [violation('applied exactly once', `${id} is ${status} and was applied ${seen} times`)];
  });
}

/** The chain of a key must be the one computed from its finished messages in the order of their positions. */
function fold({ messages, chains }: History): Violation[] {
  const folds = new Folds(messages);
  const wrong = chains.flatMap(({ key, n, hash }) => {
    const computed = folds.of(key);
    if (computed.length === n && computed.at(-1) === hash) return [];
    const detail = `the chain of ${key} has ${n} links and is not the fold of its ${computed.length} finished messages`;
    return [violation('the read model is the fold of its messages', detail)];
  });
  if (chains.length === folds.size) return wrong;
  return [
    ...wrong,
    violation(
      'the read model is the fold of its messages',
      `${chains.length} chains for ${folds.size} keys with finished messages`,
    ),
  ];
}

/** A producer posts the messages of a key one after the other: their positions must have that order. */
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
        violation('order as posted', `${id} was posted after ${before.id} and has a lower position`),
      );
    last.set(key, { id, position });
  }
  return violations;
}

/** Only failing messages become dead letters, none exceeds the last attempt, and no message of the key overtakes one. */
function deadLetters({ messages, terms }: History): Violation[] {
  const maxAttempts = terms.retriesMs.length + 1;
  const deadAt = new Map<string, number>();
  const violations: Violation[] = [];
  const report = (detail: string) =>
    violations.push(violation('only failing messages become dead letters, none is overtaken', detail));
  for (const { position, id, key, payload, status, attempt, error } of messages) {
    const dead = deadAt.get(key);
    if (dead !== undefined && status === 'finished') report(`${id} overtook the dead letter at ${dead}`);
    if (attempt > maxAttempts)
      violations.push(
        violation('inbox attempts within the maximum', `${id} has ${attempt} attempts of ${maxAttempts}`),
      );
    if (status !== 'dead') continue;
    deadAt.set(key, position);
    const { refuses, fails = 0, heals = 0, kills = 0, cuts = 0 } = payload ?? {};
    if (!refuses && Math.max(fails, heals) < maxAttempts && kills + cuts < maxAttempts)
      report(
        `${id} is a dead letter although it should not fail: ${error}; its payload is ${JSON.stringify(payload)}`,
      );
  }
  return violations;
}

function superseded({ messages }: History): Violation[] {
  const byPosition = new Map(messages.map((row) => [row.position, row]));
  return messages.flatMap((row) => {
    if (row.status !== 'superseded') return [];
    const winner = byPosition.get(row.superseded_by ?? 0);
    const allowed = winner?.key === row.key && winner.type === 'edit' && winner.position > row.position;
    if (allowed && row.type === 'edit') return [];
    return [
      violation(
        'superseded only by a later message of its slot',
        `${row.id} was superseded by ${winner?.id}`,
      ),
    ];
  });
}

/** The message sent by another is stored once if that one was applied, otherwise not at all. */
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
    return [violation('what a message sends commits with its effect', detail)];
  });
}

/**
 * The attempt after a failure comes when the hold of that failure is over, unless an operator ended it. A failure that
 * could not be written does not count as an attempt: the same number is used again, at any time.
 */
function earlyRetries({ messages, attemptLog, operations, terms }: History): Violation[] {
  const released = operations.keys;
  const exempt = new Set(messages.filter(({ key }) => released.has(key)).map(({ id }) => id));
  const failedAt = new Map<string, number>();
  return attemptLog.flatMap(({ id, what, attempt, atMs }) => {
    if (what === 'fail') failedAt.set(`${id} ${attempt}`, atMs);
    const before = failedAt.get(`${id} ${attempt - 1}`);
    if (what !== 'try' || before === undefined || exempt.has(id)) return [];
    const minMs = terms.retriesMs[attempt - 2]!;
    if (atMs - before + CLOCK_MS >= minMs) return [];
    const detail = `${id} was tried ${Math.round(atMs - before)} ms after it had failed instead of ${minMs}`;
    return [violation('no retry before its time', detail)];
  });
}
