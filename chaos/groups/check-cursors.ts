import { type Violation, violation } from '../violation.ts';
import { Evidence } from './evidence.ts';
import { type CursorChange, type GroupsHistory, partitionName } from './group-history.ts';

interface Step {
  readonly before: CursorChange;
  readonly after: CursorChange;
}

/** Each change of a cursor, as the database logged it, must be one that the consumers' calls explain. */
export function checkCursors(history: GroupsHistory): Violation[] {
  const evidence = new Evidence(history);
  const last = new Map<string, CursorChange>();
  const violations = history.changes.flatMap((after) => {
    const name = partitionName(after);
    const before = last.get(name);
    last.set(name, after);
    if (!before) return [];
    if (after.op === 'INSERT' && before.op === 'DELETE') return checkSeek({ before, after }, evidence);
    return after.op === 'UPDATE' ? checkStep({ before, after }, evidence) : [];
  });
  return [...violations, ...sessions(history, evidence)];
}

function checkStep(step: Step, evidence: Evidence): Violation[] {
  return [
    ...fences(step),
    ...committedForward(step),
    ...commitByOwner(step, evidence),
    ...handOver(step, evidence),
    ...takenBack(step, evidence),
  ];
}

/** A new cursor replaces another only by a seek. */
function checkSeek({ before, after }: Step, evidence: Evidence): Violation[] {
  return [
    ...fences({ before, after }),
    ...(after.committed < before.committed && !evidence.hasSought(after.group)
      ? [violation('committed offsets never go back', `${nameOf(after)} without a seek`)]
      : []),
  ];
}

/** A partition gets a higher fence with every owner. */
function fences({ before, after }: Step): Violation[] {
  const moved = after.owner !== null && after.owner !== before.owner;
  if (after.fence >= before.fence && !(moved && after.fence === before.fence)) return [];
  const detail = `${nameOf(after)} has fence ${after.fence} after ${before.fence}`;
  return [violation('only the owner of a partition commits, with its fence', detail)];
}

function committedForward({ before, after }: Step): Violation[] {
  if (after.committed >= before.committed) return [];
  const detail = `${nameOf(after)} was committed up to ${before.committed}`;
  return [violation('committed offsets never go back', detail)];
}

/** An offset moves because the owner committed it with its fence; everything up to it was handed to this owner. */
function commitByOwner({ before, after }: Step, evidence: Evidence): Violation[] {
  const { owner, committed } = after;
  if (committed <= before.committed) return [];
  if (owner !== before.owner || owner === null) return exhausted({ before, after }, evidence);
  const outcomes = evidence.commitsOf(owner, after, committed);
  if (outcomes.length === 0)
    return [
      violation(
        'only the owner of a partition commits, with its fence',
        `${nameOf(after)}: ${owner}, which has fence ${after.fence}, sent no such commit`,
      ),
    ];
  if (outcomes.every((outcome) => outcome === 'fenced'))
    return [violation('a fenced commit changes nothing', `${nameOf(after)}: it was fenced and is stored`)];
  const missing = range(before.committed, committed).filter(
    (offset) => !evidence.hasReceived(owner, after, offset),
  );
  return missing.map((offset) =>
    violation(
      'every group gets every message, and commits or rejects it',
      `${nameOf(after)}: ${owner} never got offset ${offset}`,
    ),
  );
}

/** With a change of the owner an offset moves only past a message that its owners died with too often. */
function exhausted({ before, after }: Step, evidence: Evidence): Violation[] {
  const offsets = range(before.committed, after.committed);
  if (offsets.length === 1 && evidence.isExhausted(after.group, after, after.committed)) return [];
  const detail = `${nameOf(after)} after ${before.committed} when its owner changed`;
  return [violation('nothing is skipped by a rebalance', detail)];
}

/** A new owner starts behind the committed offset; a live owner has committed everything before. */
function handOver({ before, after }: Step, evidence: Evidence): Violation[] {
  if (after.owner === before.owner) return [];
  const check = 'nothing is skipped by a rebalance';
  const wasAlive = before.owner !== null && !evidence.isGone(before.owner, after.n);
  return [
    ...(after.handed === after.committed
      ? []
      : [violation(check, `${nameOf(after)}: its new owner starts after ${after.handed}`)]),
    ...(wasAlive && before.handed > before.committed
      ? [violation(check, `${nameOf(after)} was taken from a live owner, which had up to ${before.handed}`)]
      : []),
  ];
}

/** What was handed out is handed out again because its owner is gone, or did not get it. */
function takenBack({ before, after }: Step, evidence: Evidence): Violation[] {
  if (after.handed >= before.handed || before.owner === null) return [];
  const explained =
    after.owner === before.owner
      ? evidence.explainsTakingBack(before.owner, after, after.handed, after.committed)
      : evidence.isGone(before.owner, after.n);
  if (explained) return [];
  const detail = `${nameOf(after)}: ${after.handed + 1} to ${before.handed} are handed out again`;
  return [violation('every repeat to a group has a reason', detail)];
}

/** A member that did not leave is dropped only after a silence as long as the session. */
function sessions({ ends }: GroupsHistory, evidence: Evidence): Violation[] {
  return ends
    .filter(({ member, silentMs, sessionMs }) => silentMs < sessionMs && !evidence.hasLeft(member))
    .map(({ member, silentMs }) =>
      violation(
        'every repeat to a group has a reason',
        `${member} was dropped after a silence of ${Math.round(silentMs)} ms`,
      ),
    );
}

/** The offsets after `from`, up to `to`. */
function range(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, index) => from + 1 + index);
}

function nameOf(change: CursorChange): string {
  return `${partitionName(change)} is committed up to ${change.committed}`;
}
