import { setTimeout as pause } from 'node:timers/promises';
import type { Api } from '../api.ts';
import { Random } from '../random.ts';
import { killsConsumers, rejectionsIn } from './consumer-rules.ts';
import type { ConsumerCall, ReceivedBatch } from './group-history.ts';
import { SESSION_MS } from './group-terms.ts';
import { Member } from './member.ts';

export interface ConsumerOptions {
  readonly api: Api;
  readonly calls: ConsumerCall[];
  readonly group: string;
  readonly name: string;
  readonly seed: number;
  /** It is killed, by some messages, too; it freezes, and leaves. */
  readonly faults: boolean;
  /** It moves the offsets of its group back when it has left. */
  readonly seeks: boolean;
}

type ConsumerFault = 'kill' | 'kill in mid-poll' | 'freeze' | 'leave' | 'leave with messages';

const FAULTS: readonly ConsumerFault[] = [
  'kill',
  'kill in mid-poll',
  'freeze',
  'leave',
  'leave with messages',
];
/** How far a seek goes back at most. */
const SEEK_BACK = 40;
const SEEK_ATTEMPTS = 3;
const LEAVE_ATTEMPTS = 20;

/** A consumer process: joins, polls, processes, commits; starts over as another member when it is killed or dropped. */
export class Consumer {
  private readonly random: Random;
  private faulty: boolean;
  private nextFaultMs: number;
  private over = false;

  constructor(private readonly options: ConsumerOptions) {
    this.random = new Random(options.seed);
    this.faulty = options.faults;
    this.nextFaultMs = Date.now() + this.random.between(1_000, 4_000);
  }

  async run(): Promise<void> {
    while (!this.over) {
      const { api, calls, group, name } = this.options;
      const member = await Member.join(api, this.random, calls, group, name);
      if (member) await this.consume(member);
      else await pause(this.random.between(50, 300));
    }
  }

  calm(): void {
    this.faulty = false;
  }

  /** Leaves after its poll. */
  finish(): void {
    this.over = true;
  }

  private async consume(member: Member): Promise<void> {
    while (!this.over) {
      const fault = this.dueFault();
      if (fault === 'kill in mid-poll') return this.dieInMidPoll(member);
      const polled = await member.poll(this.pollOptions());
      if (polled === 'gone') return;
      if (polled === 'lost') await pause(this.random.between(10, 100));
      else if (fault) {
        if (await this.suffer(fault, member, polled)) return;
      } else if (await this.process(member, polled)) return this.stayDead();
    }
    await this.leave(member, true);
  }

  private pollOptions() {
    const { random } = this;
    return {
      max: random.chance(0.3) ? 1 + random.below(5) : 10 + random.below(60),
      waitMs: Math.round(random.between(0, 2_000)),
      commit: random.chance(0.6),
    };
  }

  private dueFault(): ConsumerFault | undefined {
    if (!this.faulty || Date.now() < this.nextFaultMs) return undefined;
    this.nextFaultMs = Date.now() + this.random.between(3_000, 8_000);
    return this.random.one(FAULTS);
  }

  private async dieInMidPoll(member: Member): Promise<void> {
    const signal = AbortSignal.timeout(Math.round(this.random.between(1, 400)));
    await member.poll({ ...this.pollOptions(), signal });
    await this.stayDead();
  }

  /** True: it is no longer this member. */
  private async suffer(fault: ConsumerFault, member: Member, batches: readonly ReceivedBatch[]) {
    if (fault === 'freeze') {
      await pause(SESSION_MS * this.random.between(1.1, 2));
      for (const batch of batches) member.processed(batch, batch.to, rejectionsIn(batch));
      if (this.random.chance(0.5)) return (await member.commit()) === 'gone';
      return (await member.poll({ max: 10, waitMs: 0, commit: true })) === 'gone';
    }
    if (fault === 'leave' && (await this.process(member, batches))) await this.stayDead();
    else if (fault === 'kill') await this.stayDead();
    else await this.leave(member, fault === 'leave');
    return true;
  }

  /** True: a message killed it. */
  private async process(member: Member, batches: readonly ReceivedBatch[]): Promise<boolean> {
    const { random } = this;
    for (const batch of batches) {
      await pause(random.between(0, 40));
      if (this.options.faults && batch.messages.some(({ id }) => killsConsumers(id))) return true;
      const middle = batch.from + random.below(batch.to - batch.from + 1);
      if (random.chance(0.1)) {
        member.processed(batch, middle, rejectionsIn(batch, middle));
        await member.commit();
      }
      member.processed(batch, batch.to, rejectionsIn(batch));
    }
    if (random.chance(0.4)) await member.commit();
    return false;
  }

  private async leave(member: Member, commit: boolean): Promise<void> {
    for (let attempt = 0; commit && attempt < LEAVE_ATTEMPTS; attempt++) if (await member.commit()) break;
    for (let attempt = 0; attempt < LEAVE_ATTEMPTS; attempt++) {
      if (await member.leave()) break;
      await pause(100);
    }
    if (this.over) return;
    if (this.options.seeks) await this.seekBack();
    await pause(this.random.between(0, 500));
  }

  /** Back in one partition; refused while earlier members still count as alive. */
  private async seekBack(): Promise<void> {
    const { api, group } = this.options;
    const reply = await api.call('GET', `/v1/groups/${group}`, this.random, { expected: [200] });
    if (reply?.status !== 200) return;
    const { partitions } = reply.body as {
      partitions: { topic: string; partition: number; committed: number }[];
    };
    const { topic, partition, committed } = this.random.one(partitions);
    const to = { offset: Math.max(0, committed - this.random.below(SEEK_BACK)) };
    for (let attempt = 0; attempt < SEEK_ATTEMPTS; attempt++) {
      if ((await this.seek({ topic, partition, to })) === 200) return;
      await pause(SESSION_MS / 2);
    }
  }

  private async seek(body: object): Promise<number | undefined> {
    const { api, group, calls } = this.options;
    const sentMs = Date.now();
    const options = { body, expected: [200, 409] };
    const reply = await api.call('POST', `/v1/groups/${group}/seek`, this.random, options);
    const rest = { status: reply?.status, commits: [], next: [], batches: [] };
    calls.push({ group, member: '', what: 'seek', sentMs, doneMs: Date.now(), ...rest });
    return reply?.status;
  }

  private async stayDead(): Promise<void> {
    await pause(this.random.between(0, SESSION_MS / 2));
  }
}
