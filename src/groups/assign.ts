import { type Cursor, isIdle } from './cursor.ts';

/** What becomes of a cursor: its owner, whether it drains; `split`: what is in flight stays with the former owner. */
export interface Assignment {
  readonly cursor: Cursor;
  readonly owner: string | null;
  readonly draining: boolean;
  readonly split: boolean;
}

interface Draft {
  readonly cursor: Cursor;
  owner: string | null;
  draining: boolean;
  split: boolean;
}

/**
 * Pure: assigns partitions to members as evenly as possible, and moves as few as possible. A partition that its owner has
 * to give up drains first, unless nothing of it is in flight: nothing more is handed out, and it is free when everything is
 * committed. `members` in the order in which they joined. Returns the cursors that change.
 */
export function assign(
  members: readonly string[],
  cursors: readonly Cursor[],
  takeover: 'drain' | 'skip',
): Assignment[] {
  const alive = new Set(members);
  const drafts = cursors.map((cursor): Draft => {
    const owner = cursor.owner !== null && alive.has(cursor.owner) ? cursor.owner : null;
    const drained = cursor.draining && isIdle(cursor);
    return {
      cursor,
      owner: drained ? null : owner,
      draining: owner !== null && cursor.draining && !drained,
      split: false,
    };
  });
  const whole = drafts.filter(({ cursor }) => cursor.bound === null);
  if (members.length > 0) {
    const quotas = quotasOf(members, whole);
    for (const member of members) fitToQuota(whole, member, quotas.get(member)!, takeover);
    assignFree(whole, members, quotas);
  }
  assignRemainders(drafts, whole);
  return drafts.filter(
    ({ cursor, owner, draining, split }) => owner !== cursor.owner || draining !== cursor.draining || split,
  );
}

/** The members that own most now get one more where the partitions do not divide evenly: so the fewest move. */
function quotasOf(members: readonly string[], whole: readonly Draft[]): Map<string, number> {
  const base = Math.floor(whole.length / members.length);
  const extra = whole.length % members.length;
  const byOwned = [...members].sort((a, b) => ownedBy(whole, b).length - ownedBy(whole, a).length);
  return new Map(byOwned.map((member, index) => [member, base + (index < extra ? 1 : 0)]));
}

function ownedBy(whole: readonly Draft[], member: string): Draft[] {
  return whole.filter(({ owner, draining }) => owner === member && !draining);
}

function fitToQuota(
  whole: readonly Draft[],
  member: string,
  quota: number,
  takeover: 'drain' | 'skip',
): void {
  const owned = ownedBy(whole, member);
  const idleFirst = [...owned].reverse().sort((a, b) => Number(isIdle(b.cursor)) - Number(isIdle(a.cursor)));
  for (const draft of idleFirst.slice(0, Math.max(0, owned.length - quota))) giveUp(draft, takeover);
  // A partition that drains stays with its owner if it turns out to be needed there.
  const draining = whole.filter((draft) => draft.owner === member && draft.draining);
  for (const draft of draining.slice(0, Math.max(0, quota - owned.length))) draft.draining = false;
}

function giveUp(draft: Draft, takeover: 'drain' | 'skip'): void {
  const idle = isIdle(draft.cursor);
  if (idle || takeover === 'skip') draft.owner = null;
  else draft.draining = true;
  draft.split = !idle && takeover === 'skip';
}

function assignFree(
  whole: readonly Draft[],
  members: readonly string[],
  quotas: ReadonlyMap<string, number>,
): void {
  const missing = new Map(
    members.map((member) => [member, quotas.get(member)! - ownedBy(whole, member).length]),
  );
  const take = (draft: Draft, member: string) => {
    draft.owner = member;
    missing.set(member, missing.get(member)! - 1);
  };
  const free = whole.filter(({ owner }) => owner === null);
  for (const draft of free) {
    const former = draft.cursor.former_owner;
    if (former !== null && (missing.get(former) ?? 0) > 0) take(draft, former);
  }
  for (const draft of free.filter(({ owner }) => owner === null)) {
    const [neediest] = [...missing].sort(([, a], [, b]) => b - a);
    take(draft, neediest![0]);
  }
}

/** What a former owner had in flight when it died goes to the owner of the partition. */
function assignRemainders(drafts: readonly Draft[], whole: readonly Draft[]): void {
  for (const draft of drafts) {
    if (draft.cursor.bound === null || draft.owner !== null) continue;
    const { topic, partition } = draft.cursor;
    draft.draining = false;
    draft.owner =
      whole.find(({ cursor }) => cursor.topic === topic && cursor.partition === partition)?.owner ?? null;
  }
}
