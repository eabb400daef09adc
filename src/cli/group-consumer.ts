import { hostname } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { CliError } from './cli-error.ts';
import type { Context } from './command.ts';
import { GroupPositions, keyOf, type OwnedPlace } from './group-positions.ts';
import { groupPath } from './groups.ts';
import { printMessage, type Remaining } from './messages.ts';
import { itemTexts, memberText } from './raw-json.ts';
import { withoutOutages } from './without-outages.ts';

const MAX_BATCH = 500;
/** Shorter than the timeout of a call. */
const WAIT = '20s';
const RETRY_MS = 500;

interface Batch extends OwnedPlace {
  readonly from: number;
  readonly to: number;
  readonly count: number;
  readonly skipped?: { readonly from: number; readonly to: number };
}

/** A member of a group that prints what it gets, commits it, and leaves at the end. */
export class GroupConsumer {
  private readonly path: string;
  private positions = new GroupPositions();
  private member: string | undefined;
  private why: string | undefined;

  constructor(
    group: string,
    private readonly context: Context,
  ) {
    this.path = groupPath(group);
  }

  async run(remaining: Remaining): Promise<void> {
    await this.join();
    try {
      while (!this.context.stopping.aborted && !remaining.isOver) await this.pollOnce(remaining);
    } finally {
      await this.leave();
    }
  }

  private async join(): Promise<void> {
    const body = { name: `sluice consume at ${hostname()}` };
    const { body: joined } = await this.context.api.call('POST', `${this.path}/members`, { body });
    this.member = joined.member;
    this.positions = new GroupPositions();
    this.positions.assign(joined);
    this.reportWhy(joined.why);
  }

  private async pollOnce(remaining: Remaining): Promise<void> {
    const { api, stopping } = this.context;
    const next = this.positions.next();
    const body = { member: this.member, max: remaining.upTo(MAX_BATCH), wait: WAIT, next };
    const polled = await this.call(() => api.call('POST', `${this.path}/poll`, { body, signal: stopping }));
    if (!polled) return;
    this.reportWhy(polled.body.why);
    const passed = this.positions.assign(polled.body);
    for (const skipped of passed) this.noteSkipped(skipped, skipped);
    const batches = polled.body.batches as Batch[];
    const texts = itemTexts(memberText(polled.text, 'batches')!);
    const printed: Batch[] = [];
    for (const [index, batch] of batches.entries()) {
      if (!this.positions.receive(batch)) continue;
      const isNoted = passed.some((place) => keyOf(place) === keyOf(batch));
      if (batch.skipped && !isNoted) this.noteSkipped(batch, batch.skipped);
      this.print(batch, texts[index]!, remaining);
      printed.push(batch);
    }
    await this.commit(printed.filter(({ count }) => count > 0));
  }

  private noteSkipped({ topic, partition }: OwnedPlace, { from, to }: NonNullable<Batch['skipped']>): void {
    this.context.output.note(`${topic}/${partition}: offsets ${from} to ${to} are no longer kept`);
  }

  private print({ topic, partition }: Batch, text: string, remaining: Remaining): void {
    const { output } = this.context;
    for (const message of itemTexts(memberText(text, 'messages')!)) {
      printMessage(message, { topic, partition }, output);
      remaining.take();
    }
  }

  /** After printing: a message that was not printed is handed out again. */
  private async commit(batches: readonly Batch[]): Promise<void> {
    if (batches.length === 0) return;
    const { api, output } = this.context;
    const offsets = batches.map(({ topic, partition, fence, to }) => ({
      topic,
      partition,
      fence,
      offset: to,
    }));
    const body = { member: this.member, offsets };
    const committed = await this.call(() => api.call('POST', `${this.path}/commit`, { body, retries: 2 }));
    const outcomes = (committed?.body.offsets ?? []) as (OwnedPlace & { outcome: string })[];
    for (const { topic, partition, outcome } of outcomes)
      if (outcome === 'fenced')
        output.note(`${topic}/${partition} went to another member, which gets these messages again`);
  }

  /** Joins again if the session was over. Undefined: the command was stopped, or the call has to be made again. */
  private async call<Result>(call: () => Promise<Result>): Promise<Result | undefined> {
    try {
      return await withoutOutages(this.context, call);
    } catch (error) {
      // Another consumer polls with the id of this member.
      if (problemOf(error) === 'poll-in-progress') return this.pause();
      if (problemOf(error) !== 'member-unknown') throw error;
      this.context.output.note('the session was over; joining again');
      await this.join();
      return undefined;
    }
  }

  private async pause(): Promise<undefined> {
    await pause(RETRY_MS, undefined, { signal: this.context.stopping }).catch(() => undefined);
  }

  /** Without it the partitions stay assigned until the session is over. */
  private async leave(): Promise<void> {
    const path = `${this.path}/members/${this.member}`;
    await this.context.api.request('DELETE', path, { retries: 1 }).catch((error) => {
      if (!(error instanceof CliError)) throw error;
      this.context.output.note(`cannot leave the group: ${error.message}`);
    });
  }

  private reportWhy(why: string | undefined): void {
    if (why !== undefined && why !== this.why) this.context.output.note(why);
    this.why = why;
  }
}

function problemOf(error: unknown): string | undefined {
  const problem = error instanceof CliError ? (error.problem as { type?: string } | undefined) : undefined;
  return problem?.type?.split('/').at(-1);
}
