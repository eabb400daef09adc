import { setTimeout as pause } from 'node:timers/promises';
import type { DeliveryRow } from './history.ts';

const READ_ATTEMPTS = 150;
const AT_ONCE = 8;

/** The attempts of each delivery of these messages, read over the API. */
export async function attemptsOf(
  messages: readonly string[],
  urls: readonly string[],
): Promise<Map<string, number>> {
  const totals = new Map<string, number>();
  const remaining = [...messages];
  const read = async () => {
    for (let id = remaining.pop(); id !== undefined; id = remaining.pop()) {
      const { deliveries } = await readMessage(id, urls);
      for (const { id, attemptsTotal } of deliveries) totals.set(id, attemptsTotal);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, read));
  return totals;
}

/** From any replica that responds: some may still be starting. */
async function readMessage(id: string, urls: readonly string[]): Promise<{ deliveries: DeliveryRow[] }> {
  for (let attempt = 0; attempt < READ_ATTEMPTS; attempt++) {
    const url = urls[attempt % urls.length]!;
    const response = await fetch(`${url}/v1/messages/${encodeURIComponent(id)}`).catch(() => undefined);
    if (response?.status === 200) return (await response.json()) as { deliveries: DeliveryRow[] };
    await pause(200);
  }
  throw new Error(`no replica returned message ${id}`);
}
