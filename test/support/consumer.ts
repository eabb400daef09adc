import type { PulledMessage as RecordedMessage } from '../../chaos/queues/queue-history.ts';
import { type ApiResponse, CONSUME_KEY, type TestApp } from './app.ts';

/** A message as a pull returns it. */
export interface PulledMessage extends RecordedMessage {
  readonly headers: Record<string, string>;
  readonly timestamp: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests post any payload
  readonly payload: any;
}

export interface PullOptions {
  readonly max?: number;
  readonly maxBytes?: number;
  readonly wait?: string;
}

export interface Acknowledgement {
  readonly acknowledge?: readonly string[];
  readonly retry?: readonly { lease: string; after?: string; reason?: string }[];
  readonly reject?: readonly { lease: string; reason: string }[];
  readonly extend?: readonly { lease: string; by?: string }[];
}

/** A consumer of a listener with the mode `pull`, with an API key that may do nothing else. */
export class TestConsumer {
  constructor(
    private readonly replica: Pick<TestApp, 'call'>,
    private readonly listener: string,
  ) {}

  async pull(options: PullOptions = {}): Promise<PulledMessage[]> {
    const response = await this.call('pull', options);
    if (response.status !== 200) throw new Error(`pull: ${response.status} ${response.text}`);
    return response.body.messages;
  }

  /** The outcome of each lease, in the order of the request. */
  async settle(body: Acknowledgement): Promise<string[]> {
    const response = await this.call('acknowledge', body);
    if (response.status !== 200) throw new Error(`acknowledge: ${response.status} ${response.text}`);
    return response.body.leases.map(({ outcome }: { outcome: string }) => outcome);
  }

  acknowledge(...messages: readonly Pick<PulledMessage, 'lease'>[]): Promise<string[]> {
    return this.settle({ acknowledge: messages.map(({ lease }) => lease) });
  }

  call(what: 'pull' | 'acknowledge', body?: unknown): Promise<ApiResponse> {
    const path = `/v1/listeners/${this.listener}/${what}`;
    return this.replica.call('POST', path, { body, key: CONSUME_KEY });
  }
}
