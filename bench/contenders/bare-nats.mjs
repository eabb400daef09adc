import { randomUUID } from 'node:crypto';
import { withStream } from '../harness/nats.mjs';
import { Progress } from '../harness/progress.mjs';
import { keyOf, TEXT, TYPE } from '../harness/workload.mjs';

export function setup() {}

/** N loops that publish one message after the other and wait for its acknowledgement: no queue, nothing read or recorded. */
export async function drain({ nats, concurrency, complete, ...counts }) {
  const { result } = await withStream(nats, (stream) => publish(stream, concurrency, counts));
  return result;
}

async function publish(stream, concurrency, counts) {
  const { headers } = await import('@nats-io/transport-node');
  const progress = new Progress(counts);
  let index = 0;
  const loop = async () => {
    while (index < counts.until) {
      const n = index++;
      const [id, key] = [randomUUID(), keyOf(n)];
      const list = headers();
      for (const [name, value] of Object.entries({ 'ce-id': id, 'ce-type': TYPE, 'ce-subject': key }))
        list.append(name, value);
      const body = JSON.stringify({ n, text: TEXT });
      await stream.publish(`sink.${key}`, body, { msgID: id, headers: list });
      progress.handled();
    }
  };
  await Promise.all(Array.from({ length: concurrency }, loop));
  return progress.over();
}
