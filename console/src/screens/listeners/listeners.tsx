import type { Listener, ListenerBacklog, ListenerRates } from '../../api-types.ts';
import { duration, milliseconds, percent, perSecond, shortCount } from '../../format.ts';
import { snapshot } from '../../live.ts';
import { usePages } from '../../load.ts';
import { Act } from '../../parts/confirm.tsx';
import { counted } from '../../parts/counted.ts';
import { Heading } from '../../parts/heading.tsx';
import { ListenerLink, Text } from '../../parts/links.tsx';
import { Empty, ShowPages } from '../../parts/states.tsx';
import { Alarming } from '../../parts/status.tsx';
import { type Column, Table } from '../../parts/table.tsx';
import { to } from '../../router.ts';
import { destinationOf } from './definition-form.ts';
import { askCreate } from './edit.tsx';
import { ListenerState } from './state.tsx';

interface Row {
  readonly listener: Listener;
  readonly backlog: ListenerBacklog | undefined;
  readonly rates: ListenerRates | undefined;
}

const COLUMNS: Column<Row>[] = [
  {
    head: 'Listener',
    cell: ({ listener }) => (
      <>
        <ListenerLink name={listener.name} />
        <Text
          of={listener.mode === 'pull' ? 'pulled by consumers' : destinationOf(listener)}
          class="sub clip"
        />
      </>
    ),
    class: 'grow',
  },
  { head: 'State', cell: ({ listener }) => <ListenerState of={listener} /> },
  {
    head: 'Delivered',
    cell: ({ rates }) => <Live text={perSecond(rates?.deliveredPerSecond ?? 0)} />,
    isNumber: true,
  },
  { head: 'Success', cell: ({ rates }) => <Live text={percent(rates?.successRatio)} />, isNumber: true },
  { head: 'p95', cell: ({ rates }) => <Live text={milliseconds(rates?.p95Ms)} />, isNumber: true },
  {
    head: 'Waiting',
    cell: ({ backlog }) => <Live text={counted([backlog?.ready ?? 0, backlog?.held ?? 0], shortCount)} />,
    isNumber: true,
  },
  {
    head: 'Oldest',
    cell: ({ backlog }) => <Live text={backlog?.oldestSeconds ? duration(backlog.oldestSeconds) : '–'} />,
    isNumber: true,
  },
  {
    head: 'Dead',
    cell: ({ listener, backlog }) => (
      <Alarming value={backlog?.deadLetters ?? 0}>
        {backlog?.deadLetters ? (
          <a href={to('dead-letters', { stage: 'outbox', listener: listener.name })}>
            {counted([backlog.deadLetters], shortCount)}
          </a>
        ) : (
          '0'
        )}
      </Alarming>
    ),
    isNumber: true,
  },
  { head: 'Rate limit', cell: ({ listener }) => rateLimit(listener), isNumber: true },
];

function Live({ text }: { text: string }) {
  return (
    <span class={`live-number ${text === '–' || text === '0' || text === '0/s' ? 'muted' : ''}`}>{text}</span>
  );
}

function rateLimit({ rateLimit, health }: Listener): string {
  if (!rateLimit?.perSecond) return '–';
  return `${rateLimit.perSecond}/s${health?.rate.limitedUntil ? ', reached' : ''}`;
}

/** Everybody who gets webhooks or pulls from a queue. */
export function Listeners() {
  const listeners = usePages<Listener>('v1/listeners', {}, 10);
  const current = snapshot.value;
  const backlogs = new Map(current?.backlog.listeners.map((one) => [one.name, one]));
  const rates = new Map(current?.rates.listeners.map((one) => [one.name, one]));
  return (
    <>
      <Heading title="Listeners" lead="Who gets messages as webhooks, or pulls them from a queue.">
        <Act label="New listener…" onClick={askCreate} />
      </Heading>
      <section class="panel" aria-label="Listeners">
        <ShowPages
          of={listeners}
          what="listeners"
          empty={
            <Empty title="No listeners yet">
              A listener gets every message of its types, signed, in order per key.
            </Empty>
          }
        >
          {(items) => (
            <Table
              label="Listeners"
              columns={COLUMNS}
              rows={items.map((listener) => ({
                listener,
                backlog: backlogs.get(listener.name),
                rates: rates.get(listener.name),
              }))}
              rowKey={({ listener }) => listener.name}
            />
          )}
        </ShowPages>
      </section>
    </>
  );
}
