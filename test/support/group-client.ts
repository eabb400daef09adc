import { CONSUME_KEY, type TestApp } from './app.ts';
import { until } from './until.ts';

export interface Place {
  readonly topic: string;
  readonly partition: number;
  readonly fence: number;
}

export interface Batch extends Place {
  readonly from: number;
  readonly to: number;
  readonly count: number;
  readonly skipped?: { readonly from: number; readonly to: number };
  readonly messages: readonly {
    offset: number;
    id: string;
    key: string;
    attempt: number;
    payload: unknown;
  }[];
}

export interface Polled {
  readonly assigned: readonly Place[];
  readonly committed: readonly { topic: string; partition: number; outcome: string; committed?: number }[];
  readonly batches: readonly Batch[];
  readonly why?: string;
}

export interface Rejected {
  readonly offset: number;
  readonly reason: string;
}

/** Topics and groups as their users see them, by the HTTP API of a replica. */
export class GroupClient {
  private created = 0;

  constructor(private readonly replica: TestApp) {}

  call(method: string, path: string, body?: unknown) {
    return this.replica.call(method, path, body === undefined ? {} : { body });
  }

  /** A topic, by default with one partition, and a group that reads it. */
  async create({
    name = `t${++this.created}`,
    topic: ofTopic = {},
    group: ofGroup = {},
  }: {
    readonly name?: string;
    readonly topic?: object;
    readonly group?: object;
  } = {}): Promise<{ topic: string; group: string }> {
    const [topic, group] = [name, `${name}-readers`];
    await this.expect(201, 'PUT', `/v1/topics/${topic}`, { partitions: 1, ...ofTopic });
    // On a busy machine a member may be silent for long.
    const definition = { topics: [topic], session: '10m', ...ofGroup };
    await this.expect(201, 'PUT', `/v1/groups/${group}`, definition);
    return { topic, group };
  }

  /** Posts messages with the payloads 0, 1, 2 … and waits until they are in the topic. */
  async post(topic: string, count: number, key = (n: number) => `k-${n}`): Promise<void> {
    const before = await this.written(topic);
    const messages = Array.from({ length: count }, (_, n) => ({ key: key(n), payload: n }));
    await this.expect(202, 'POST', `/v1/topics/${topic}/messages/batch`, { messages });
    await until(async () => (await this.written(topic)) >= before + count);
  }

  /** How many messages were ever appended. */
  async written(topic: string): Promise<number> {
    const { partitions } = await this.expect(200, 'GET', `/v1/topics/${topic}`);
    return partitions.reduce((sum: number, { next }: { next: number }) => sum + next, 0);
  }

  async join(group: string): Promise<string> {
    const { body } = await this.consume(group, 'members', {});
    return body.member;
  }

  /** The response, also of a poll that is refused. */
  tryPoll(group: string, member: string, more: object = {}) {
    return this.consume(group, 'poll', { member, ...more });
  }

  async poll(group: string, member: string, more: object = {}): Promise<Polled> {
    const { status, body, text } = await this.tryPoll(group, member, more);
    if (status !== 200) throw new Error(`${status} ${text}`);
    return body;
  }

  async commit(
    group: string,
    member: string,
    { topic, partition, fence }: Place,
    offset: number,
    rejected: readonly Rejected[] = [],
  ): Promise<string> {
    const offsets = [{ topic, partition, fence, offset, rejected }];
    const { status, body, text } = await this.consume(group, 'commit', { member, offsets });
    if (status !== 200) throw new Error(`${status} ${text}`);
    return body.offsets[0].outcome;
  }

  /** Joins, rejects the first `count` messages that the group has not read, and leaves. */
  async reject(group: string, count: number, reason = (n: number) => `reason ${n}`): Promise<void> {
    const member = await this.join(group);
    const { batches } = await this.poll(group, member, { max: count });
    for (const batch of batches) {
      const rejected = batch.messages.map(({ offset }) => ({ offset, reason: reason(offset) }));
      await this.commit(group, member, batch, batch.to, rejected);
    }
    await this.expect(204, 'DELETE', `/v1/groups/${group}/members/${member}`);
  }

  async expect(status: number, method: string, path: string, body?: unknown) {
    const response = await this.call(method, path, body);
    if (response.status !== status) throw new Error(`${method} ${path}: ${response.status} ${response.text}`);
    return response.body;
  }

  private consume(group: string, what: string, body: object) {
    return this.replica.call('POST', `/v1/groups/${group}/${what}`, { body, key: CONSUME_KEY });
  }
}
