import { withStream } from '../harness/nats.mjs';
import { drain as drainOutbox } from './sluice-outbox.mjs';

export { seed, setup } from './sluice-outbox.mjs';

/** The pending deliveries of a listener that publishes to a stream, which is empty at first. */
export async function drain({ nats, ...options }) {
  const { result, stored } = await withStream(nats, () => drainOutbox(options));
  if (stored < options.until) throw new Error(`${stored} messages are stored instead of ${options.until}`);
  return result;
}
