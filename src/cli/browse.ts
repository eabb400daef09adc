import { setTimeout as pause } from 'node:timers/promises';
import { usageError } from './cli-error.ts';
import type { Context } from './command.ts';
import type { Topic } from './groups.ts';
import { printMessage, type Remaining } from './messages.ts';
import { itemTexts, memberText } from './raw-json.ts';
import { withoutOutages } from './without-outages.ts';

const POLL_MS = 500;
const PAGE = 500;

export interface Browse {
  readonly topic: string;
  /** Undefined: all. */
  readonly partition: number | undefined;
  readonly from: 'earliest' | 'latest' | number;
  /** Whether to wait for more at the end of the topic. */
  readonly waits: boolean;
  readonly remaining: Remaining;
}

/** Prints messages of a topic without a group: nothing is stored about what was read. */
export async function browse(browse: Browse, context: Context): Promise<void> {
  const { remaining, waits } = browse;
  const first = await topicOf(browse, context);
  const positions = new Map(
    first.map(({ partition, earliest, next }) => [partition, startOf(browse.from, earliest, next)]),
  );
  let ends = first;
  while (!context.stopping.aborted) {
    for (const { partition, next } of ends)
      await withoutOutages(context, () => readPartition(browse, partition, next, positions, context));
    if (!waits || remaining.isOver) return;
    await pause(POLL_MS, undefined, { signal: context.stopping }).catch(() => undefined);
    ends = (await withoutOutages(context, () => topicOf(browse, context))) ?? [];
  }
}

function startOf(from: Browse['from'], earliest: number, next: number): number {
  if (typeof from === 'number') return from;
  return from === 'earliest' ? earliest : next;
}

async function topicOf({ topic, partition }: Browse, { api }: Context): Promise<Topic['partitions']> {
  const { partitions } = (await api.get(pathOf(topic))).body as Topic;
  if (partition === undefined) return partitions;
  const [one] = partitions.filter((each) => each.partition === partition);
  if (!one) throw usageError(`${topic} has the partitions 0 to ${partitions.length - 1}`);
  return [one];
}

/** Up to the end that was known when the pass began, so that one busy partition does not delay the others. */
async function readPartition(
  { topic, remaining }: Browse,
  partition: number,
  end: number,
  positions: Map<number, number>,
  { api, output, stopping }: Context,
): Promise<void> {
  while (positions.get(partition)! < end && !remaining.isOver && !stopping.aborted) {
    const from = positions.get(partition)!;
    const query = { partition: String(partition), from: String(from), limit: String(remaining.upTo(PAGE)) };
    const { body, text } = await api.get(`${pathOf(topic)}/messages`, query);
    if (body.count === 0) return;
    if (body.from > from)
      output.note(`${topic}/${partition}: offsets ${from} to ${body.from - 1} are no longer kept`);
    for (const message of itemTexts(memberText(text, 'messages')!)) {
      printMessage(message, { topic, partition }, output);
      remaining.take();
    }
    positions.set(partition, body.to + 1);
  }
}

function pathOf(topic: string): string {
  return `/v1/topics/${encodeURIComponent(topic)}`;
}
