import type { ApiResponse } from './app.ts';
import { TestConsumer } from './consumer.ts';
import type { TestCluster } from './test-cluster.ts';
import { until } from './until.ts';

/** A listener with the mode `pull` for the types `<name>/…`, with a consumer at each replica. */
export class TestQueue {
  readonly consumers: readonly TestConsumer[];

  private constructor(
    private readonly cluster: TestCluster,
    readonly name: string,
  ) {
    this.consumers = cluster.replicas.map((replica) => new TestConsumer(replica, name));
  }

  static async open(
    cluster: TestCluster,
    name: string,
    definition: Record<string, unknown> = {},
  ): Promise<TestQueue> {
    await cluster.put(name, { mode: 'pull', ...definition });
    return new TestQueue(cluster, name);
  }

  get consumer(): TestConsumer {
    return this.consumers[0]!;
  }

  /** Posts a message for each key, in this order, and waits until all of them are in the outbox; returns their ids. */
  async post(...keys: readonly string[]): Promise<string[]> {
    const before = await this.deliveries();
    const ids = await this.cluster.post(
      ...keys.map((key, n) => ({ type: `${this.name}/x`, key, payload: { n } })),
    );
    await until(async () => (await this.deliveries()) === before + keys.length);
    return ids;
  }

  /** How many deliveries consumers have now. */
  async inFlight(): Promise<number> {
    const [row] = await this.cluster.database.query<{ count: number }>(
      `SELECT count(*)::int AS count FROM pull_lease JOIN listener ON listener.number = pull_lease.lane / 256
       WHERE listener.name = $1`,
      [this.name],
    );
    return row!.count;
  }

  call(method: string, path: string, body?: unknown): Promise<ApiResponse> {
    return this.cluster.call(method, `/v1/listeners/${this.name}${path}`, body);
  }

  private async deliveries(): Promise<number> {
    const counts = await this.cluster.counts(this.name);
    return Object.values(counts).reduce((sum, count) => sum + count, 0);
  }
}
