import type { TestApp } from './app.ts';
import { until } from './until.ts';

/** What an operator does to rebuilds, over HTTP. */
export class RebuildClient {
  constructor(
    private readonly app: Pick<TestApp, 'call'>,
    private readonly model = 'tested',
  ) {}

  /** The latest rebuild as the API shows it. */
  async latest() {
    return (await this.app.call('GET', `/v1/read-models/${this.model}`)).body.rebuild;
  }

  /** '' starts one; '/pause', '/switch' and so on. */
  async act(action: string, body?: object): Promise<{ status: number; detail: string | undefined }> {
    const path = `/v1/read-models/${this.model}/rebuild${action}`;
    const reply = await this.app.call('POST', path, body ? { body } : {});
    return { status: reply.status, detail: reply.body.detail };
  }

  /** Waits for a status; fails if the rebuild stops instead. */
  async reached(status: string) {
    await until(async () => {
      const { status: now, failure } = await this.latest();
      if (now === 'failed' && status !== 'failed') throw new Error(JSON.stringify(failure));
      return now === status;
    });
    return this.latest();
  }
}
