import { Inject, Injectable } from '@nestjs/common';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import type { ClaimedMessage } from '../claimed-message.ts';
import { messageOf, withPayloadOf } from '../denormalizers/applied-message.ts';
import type { Preparation } from '../denormalizers/denormalizer-runner.ts';
import { Denormalizers } from '../denormalizers/denormalizers.ts';

/** Runs `prepare` for one message: calls to other systems, before and outside the transaction. */
@Injectable()
export class Preparations {
  constructor(
    @Inject(SETTINGS_TOKEN) private readonly settings: Settings,
    private readonly denormalizers: Denormalizers,
  ) {}

  needed(message: ClaimedMessage): boolean {
    return !message.expired && this.denormalizers.of(message.type).some(({ instance }) => instance.prepare);
  }

  async run(message: ClaimedMessage, stopping: AbortSignal): Promise<Preparation> {
    const results = new Map<string, unknown>();
    const signal = AbortSignal.any([stopping, AbortSignal.timeout(this.settings.inboxPrepareTimeout)]);
    try {
      for (const { name, options, instance } of this.denormalizers.of(message.type)) {
        if (!instance.prepare) continue;
        const checked = withPayloadOf(messageOf(message), options.payload);
        results.set(name, await orAborted(instance.prepare(checked, signal), signal));
      }
      return { results, error: undefined };
    } catch (error) {
      return { results, error: error ?? new Error('prepare failed without a reason') };
    }
  }
}

/** A call that ignores its signal must not block its lane for ever. */
function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(new Error('prepare took too long or was stopped'));
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}
