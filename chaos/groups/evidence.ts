import {
  type ConsumerCall,
  type GroupsHistory,
  type Place,
  placeName,
  type SentCommit,
} from './group-history.ts';

/** What the consumers recorded, to be found by what it can explain. */
export class Evidence {
  private readonly commits = new Map<string, SentCommit['outcome'][]>();
  private readonly nexts = new Map<string, number[]>();
  private readonly received = new Map<string, Set<number>>();
  private readonly withoutResponse = new Set<string>();
  private readonly leaving = new Set<string>();
  private readonly endedAt = new Map<string, number>();
  private readonly seeking = new Set<string>();
  private readonly rejected = new Map<string, string>();

  constructor({ calls, ends, rejections }: GroupsHistory) {
    for (const call of calls) this.add(call);
    for (const { member, n } of ends) this.endedAt.set(member, n);
    for (const { group, topic, partition, offset, reason } of rejections)
      this.rejected.set(`${group} ${topic}/${partition}/${offset}`, reason);
  }

  /** The outcomes of all commits of exactly this offset by this member. */
  commitsOf(member: string, place: Place, offset: number): readonly SentCommit['outcome'][] {
    return this.commits.get(`${member} ${placeName(place)} ${offset}`) ?? [];
  }

  hasReceived(member: string, place: Place, offset: number): boolean {
    return this.received.get(`${member} ${placeName(place)}`)?.has(offset) ?? false;
  }

  /** The member asked for what comes after `handed`, or a response to it got lost. */
  explainsTakingBack(member: string, place: Place, handed: number, committed: number): boolean {
    const nexts = this.nexts.get(`${member} ${placeName(place)}`) ?? [];
    return this.withoutResponse.has(member) || nexts.some((next) => Math.max(committed, next - 1) === handed);
  }

  /** It left or was dropped before this change, or with it. */
  isGone(member: string, n: number): boolean {
    return (this.endedAt.get(member) ?? Number.POSITIVE_INFINITY) < n;
  }

  hasLeft(member: string): boolean {
    return this.leaving.has(member);
  }

  hasSought(group: string): boolean {
    return this.seeking.has(group);
  }

  /** A dead letter of the group because its consumers died with it. */
  isExhausted(group: string, { topic, partition }: Omit<Place, 'fence'>, offset: number): boolean {
    return this.rejected.get(`${group} ${topic}/${partition}/${offset}`)?.includes('died') ?? false;
  }

  private add({ what, group, member, status, commits, next, batches }: ConsumerCall): void {
    if (what === 'leave') this.leaving.add(member);
    if (what === 'seek' && status !== 409) this.seeking.add(group);
    if (what === 'poll' && status !== 200) this.withoutResponse.add(member);
    for (const commit of commits)
      append(this.commits, `${member} ${placeName(commit)} ${commit.offset}`, commit.outcome);
    for (const place of next) append(this.nexts, `${member} ${placeName(place)}`, place.next);
    for (const batch of batches) {
      const name = `${member} ${placeName(batch)}`;
      const offsets = this.received.get(name) ?? new Set();
      for (const { offset } of batch.messages) offsets.add(offset);
      this.received.set(name, offsets);
    }
  }
}

function append<Value>(lists: Map<string, Value[]>, name: string, value: Value): void {
  const list = lists.get(name);
  if (list) list.push(value);
  else lists.set(name, [value]);
}
