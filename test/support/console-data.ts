import { type Receiver, type Responder, startReceiver, status } from './receiver.ts';
import { until } from './until.ts';

/** What the console shows, in a running service: something of everything, and texts that try to be more than text. */
export interface ConsoleData {
  readonly receivers: readonly Receiver[];
  close(): Promise<void>;
}

// biome-ignore lint/suspicious/noExplicitAny: tests read arbitrary bodies
export type Call = (method: string, path: string, body?: unknown) => Promise<any>;

/** Settings under which messages and deliveries die within seconds. */
export const CONSOLE_SETTINGS = {
  EGRESS_ALLOW: '127.0.0.0/8',
  INBOX_RETRY_SCHEDULE: '100ms',
  OUTBOX_POLL: '50ms',
};

/** Shown as text, never run: a script that runs sets `window.canary`. */
export const CANARIES = {
  image: '<img src=x onerror="window.canary=1">',
  script: '</script><script>window.canary=1</script>',
  url: 'javascript:window.canary=1',
  reversed: 'safe\u202Egpj.exe',
  proto: '__proto__',
  path: `a/../b%2F%00#x?y=1&z "quoted" 'single' ${'long-'.repeat(20)}`,
} as const;

/** The payload as it is posted; a reader that parses it shows something else. */
export const EXACT_PAYLOAD = '{"amount":1.0,"exp":1e3,"2":"second","1":"first","text":"</script>"}';

export const WAITING_ID = 'order-that-waits';
export const DEAD_ID = 'candidate-that-fails';
export const EXACT_ID = 'order-exact';
export const HELD_KEY = 'customer-77';

export async function feedConsole(call: Call): Promise<ConsoleData> {
  const good = await startReceiver();
  const refusing = await startReceiver(refusal);
  const failing = await startReceiver(status(500));
  const gone = await startReceiver(status(410));
  await listeners(call, {
    good: good.url,
    refusing: refusing.url,
    failing: failing.url,
    gone: gone.url,
  });
  await topics(call);
  await holds(call);
  await schedules(call);
  await messages(call);
  await untilSettled(call);
  const receivers = [good, refusing, failing, gone];
  return {
    receivers,
    close: async () => {
      for (const receiver of receivers) await receiver.close();
    },
  };
}

const refusal: Responder = (_received, response) =>
  void response.writeHead(422).end(`no such customer ${CANARIES.script}`);

async function listeners(
  call: Call,
  urls: Record<'good' | 'refusing' | 'failing' | 'gone', string>,
): Promise<void> {
  const types = ['urn:shop:*'];
  await call('PUT', '/v1/listeners/crm', { types, url: urls.good });
  await call('PUT', '/v1/listeners/billing', {
    types: ['urn:shop:orders/*'],
    url: urls.refusing,
    terminalStatuses: [422],
  });
  await call('PUT', '/v1/listeners/warehouse', { types: ['urn:shop:orders/paid'], url: urls.failing });
  await call('PUT', '/v1/listeners/legacy-erp', {
    types: ['urn:shop:customers/*'],
    url: urls.gone,
    disableAfter: { status: 410, times: 2 },
  });
  await call('PUT', '/v1/listeners/search-index', { types, mode: 'pull' });
  await call('PUT', '/v1/listeners/partner', {
    types: ['urn:shop:orders/paid'],
    url: `${urls.good}?next=${CANARIES.url}&${CANARIES.image}`,
    rateLimit: { perSecond: 30 },
  });
  await call('POST', '/v1/listeners/partner/pause', { reason: `their maintenance ${CANARIES.image}` });
}

async function topics(call: Call): Promise<void> {
  await call('PUT', '/v1/topics/orders', { partitions: 4, types: ['urn:shop:orders/*'] });
  await call('PUT', '/v1/groups/analytics', { topics: ['orders'] });
  await call('PUT', '/v1/groups/shipping', { topics: ['orders'] });
}

async function holds(call: Call): Promise<void> {
  await call('PUT', `/v1/keys/${HELD_KEY}/hold`, { reason: 'merging two accounts' });
  await call('PUT', `/v1/keys/${encodeURIComponent(CANARIES.path)}/hold`, { reason: CANARIES.script });
}

async function schedules(call: Call): Promise<void> {
  const schedule = { type: 'urn:shop:timetables/refresh', payload: {}, timezone: 'Europe/Warsaw' };
  await call('PUT', '/v1/schedules/timetables', { ...schedule, cron: '*/10 * * * *' });
  await call('PUT', '/v1/schedules/nightly-export', { ...schedule, cron: '30 2 * * 1-5' });
  await call('PUT', '/v1/schedules/month-end', { ...schedule, cron: '0 6 1 * *' });
  await call('POST', '/v1/schedules/month-end/pause');
}

async function messages(call: Call): Promise<void> {
  const order = (index: number) => ({
    id: `order-${index}`,
    type: index % 3 ? 'urn:shop:orders/placed' : 'urn:shop:orders/paid',
    key: `customer-${index % 20}`,
    payload: {
      order: index,
      total: index * 9.5,
      items: [{ sku: `sku-${index % 7}`, count: 1 + (index % 3) }],
    },
  });
  await call('POST', '/v1/messages/batch', {
    messages: Array.from({ length: 60 }, (_, index) => order(index)),
  });
  for (const index of [1, 2, 3])
    await call('POST', '/v1/messages', {
      id: `customer-${index}-changed`,
      type: 'urn:shop:customers/changed',
      key: `erp-${index}`,
      payload: { index },
    });
  await call('POST', '/v1/messages', {
    id: WAITING_ID,
    type: 'urn:shop:orders/placed',
    key: HELD_KEY,
    payload: { order: 1 },
  });
  const due = new Date(Date.now() + 86_400_000).toISOString();
  await call('POST', '/v1/messages', {
    id: 'reminder-1',
    type: 'urn:shop:reminders/due',
    dueAt: due,
    payload: {},
  });
  for (const index of [1, 2, 3])
    await call('POST', '/v1/messages', {
      id: index === 1 ? DEAD_ID : `${DEAD_ID}-${index}`,
      type: 'urn:ekp:events/candidate-accepted',
      key: `candidate-${index}`,
      payload: { note: CANARIES.image },
    });
  await call(
    'POST',
    '/v1/messages',
    `{"id":"${EXACT_ID}","type":"urn:shop:orders/exact","key":"exact","payload":${EXACT_PAYLOAD}}`,
  );
  await call('POST', '/v1/messages', {
    id: CANARIES.path,
    type: `urn:shop:${CANARIES.reversed}`,
    key: CANARIES.proto,
    payload: { ...CANARIES },
    headers: { 'x-canary': CANARIES.script, 'x-link': CANARIES.url },
  });
}

/** The failing ones have died, and the listener with the wrong responses is disabled. */
async function untilSettled(call: Call): Promise<void> {
  await until(async () => {
    const backlog = await call('GET', '/v1/backlog');
    const legacy = await call('GET', '/v1/listeners/legacy-erp');
    const billing = backlog.listeners.find((one: { name: string }) => one.name === 'billing');
    return backlog.inbox.deadLetters >= 3 && billing?.deadLetters > 0 && legacy.state === 'disabled';
  });
}
