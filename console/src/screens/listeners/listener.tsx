import { path } from '../../api.ts';
import type { Activity, ListedDelivery, Listener } from '../../api-types.ts';
import { count, duration, milliseconds, percent, perSecond } from '../../format.ts';
import { snapshot } from '../../live.ts';
import { useGet, usePages } from '../../load.ts';
import { counted } from '../../parts/counted.ts';
import { ChoiceFilter, Filters, TextFilter, TimeFilter } from '../../parts/fields.tsx';
import { Facts, Heading, Section } from '../../parts/heading.tsx';
import { KeyLink, Text } from '../../parts/links.tsx';
import { Sparkline } from '../../parts/sparkline.tsx';
import { Empty, Show, ShowPages } from '../../parts/states.tsx';
import { Status } from '../../parts/status.tsx';
import { type Column, Table } from '../../parts/table.tsx';
import { Ago } from '../../parts/time.tsx';
import { route, to } from '../../router.ts';
import { ListenerActions } from './actions.tsx';
import { destinationOf } from './definition-form.ts';
import { ListenerState } from './state.tsx';

const STATUSES = ['pending', 'processing', 'held', 'finished', 'dead', 'discarded'];

const DELIVERIES: Column<ListedDelivery>[] = [
  { head: 'Message', cell: ({ id, message }) => <DeliveryLink id={id} message={message} />, class: 'grow' },
  { head: 'Status', cell: ({ status }) => <Status of={status} /> },
  {
    head: 'Response',
    cell: ({ responseStatus, error }) => (
      <Text of={error ?? (responseStatus === null ? null : String(responseStatus))} class="clip" />
    ),
  },
  { head: 'Attempt', cell: ({ attempt }) => attempt, isNumber: true },
  { head: 'Type', cell: ({ type }) => <Text of={type} class="clip" /> },
  { head: 'Key', cell: ({ key }) => <KeyLink of={key} />, class: 'id-cell' },
  { head: 'When', cell: ({ settledAt, createdAt }) => <Ago at={settledAt ?? createdAt} />, isNumber: true },
];

/** The list has no source, but every delivery knows its message. */
function DeliveryLink({ id, message }: { id: string; message: string }) {
  return (
    <a class="id" href={to('delivery', { id, message })}>
      <bdi>{message}</bdi>
    </a>
  );
}

export function ListenerScreen() {
  const { name = '' } = route.value.query;
  const listener = useGet<Listener>(path`v1/listeners/${name}`, {}, 5);
  return (
    <>
      <Heading
        title={name}
        lead={
          listener.data && (
            <>
              <ListenerState of={listener.data} isShort /> <Text of={destinationOf(listener.data)} />
            </>
          )
        }
      >
        {listener.data && <ListenerActions of={listener.data} />}
      </Heading>
      <Show of={listener} what="the listener">
        {(data) => (
          <>
            <Stopped of={data} />
            <Numbers name={data.name} isPulled={data.mode === 'pull'} />
            <Deliveries name={data.name} isPulled={data.mode === 'pull'} />
            <Definition of={data} />
          </>
        )}
      </Show>
    </>
  );
}

function Stopped({ of: { state, stateReason, stateSince, stateBy, health } }: { of: Listener }) {
  if (state !== 'active')
    return (
      <section class={`why ${state === 'disabled' ? 'bad' : ''}`} aria-label="Why">
        <h2>Nothing is sent</h2>
        <p>
          {state === 'paused' ? 'Paused' : 'Disabled'}
          {stateBy && (
            <>
              {' '}
              by <Text of={stateBy} />
            </>
          )}{' '}
          <Ago at={stateSince} />
          {stateReason && (
            <>
              : <Text of={stateReason} />
            </>
          )}
          . Deliveries wait until it is resumed.
        </p>
      </section>
    );
  if (health?.circuit !== 'open') return null;
  return (
    <section class="why" aria-label="Why">
      <h2>Its circuit is open</h2>
      <p>
        Too many deliveries failed
        {health.reason && (
          <>
            : <Text of={health.reason.replace(/^circuit open: /, '')} />
          </>
        )}
        . One is tried <Ago at={health.closedUntil} />; if it succeeds, the others follow.
      </p>
    </section>
  );
}

/** A queue has no responses: its consumers acknowledge, or let a lease end. */
function Numbers({ name, isPulled }: { name: string; isPulled: boolean }) {
  const activity = useGet<Activity>('v1/activity', { range: '15m', step: '30s' }, 30).data;
  const backlog = snapshot.value?.backlog.listeners.find((one) => one.name === name);
  const rates = snapshot.value?.rates.listeners.find((one) => one.name === name);
  const series = activity?.listeners.find((one) => one.name === name);
  const waiting = (backlog?.ready ?? 0) + (backlog?.held ?? 0);
  const facts: (readonly [string, string, boolean?])[] = [
    ...(isPulled
      ? ([['in flight', count(backlog?.inFlight ?? 0)]] as const)
      : ([
          ['success', percent(rates?.successRatio)],
          ['p95', milliseconds(rates?.p95Ms)],
        ] as const)),
    ['waiting', counted([backlog?.ready ?? 0, backlog?.held ?? 0], count)],
    ['oldest', waiting ? duration(backlog!.oldestSeconds) : '–'],
    ['dead', counted([backlog?.deadLetters ?? 0], count), (backlog?.deadLetters ?? 0) > 0],
  ];
  return (
    <section class={isPulled ? 'numbers queue' : 'numbers'} aria-label="Numbers">
      <div class="number-wide">
        <span class="rate live-number">{perSecond(rates?.deliveredPerSecond ?? 0)}</span>
        <span class="muted">delivered</span>
        <Sparkline of={series?.delivered} label={`Delivered to ${name}`} wide />
      </div>
      {facts.map(([label, value, isBad]) => (
        <div key={label}>
          <span class={`rate live-number ${isBad ? 'alarming' : ''}`}>
            {isBad ? <a href={to('dead-letters', { stage: 'outbox', listener: name })}>{value}</a> : value}
          </span>
          <span class="muted">{label}</span>
        </div>
      ))}
    </section>
  );
}

function Deliveries({ name, isPulled }: { name: string; isPulled: boolean }) {
  const { status, key, type, responseStatus, since } = route.value.query;
  const deliveries = usePages<ListedDelivery>(path`v1/listeners/${name}/deliveries`, {
    status,
    key,
    type,
    responseStatus,
    since,
    limit: 25,
  });
  return (
    <Section
      title="Deliveries"
      note="newest first"
      actions={
        <button type="button" onClick={deliveries.reload}>
          Refresh
        </button>
      }
    >
      <Filters isInside>
        <ChoiceFilter name="status" label="Status" value={status} choices={STATUSES} />
        <TextFilter name="type" label="Type" value={type} />
        <TextFilter name="key" label="Key" value={key} />
        {!isPulled && <TextFilter name="responseStatus" label="Response (HTTP)" value={responseStatus} />}
        <TimeFilter name="since" label="Since" value={since} />
      </Filters>
      <ShowPages
        of={deliveries}
        what="deliveries"
        empty={
          <Empty title="No deliveries">Each message of its types is one, as soon as it is applied.</Empty>
        }
      >
        {(items) => <Table label="Deliveries" columns={DELIVERIES} rows={items} rowKey={({ id }) => id} />}
      </ShowPages>
    </Section>
  );
}

function Definition({ of }: { of: Listener }) {
  const headers = Object.keys(of.headers ?? {});
  const credentials = Object.keys(of.credentials ?? {});
  return (
    <Section title="Definition" note={of.origin === 'file' ? 'from LISTENERS_FILE' : ''}>
      <Facts
        of={[
          ['Types', <Text key="types" of={of.types.join(', ')} />],
          ['Order', of.ordered ? 'kept per key' : 'not kept'],
          ['Retries after', of.retrySchedule.join(', ')],
          ['After a dead letter', of.onDead === 'hold' ? 'its key waits' : 'its key continues'],
          ['Lanes', String(of.lanes)],
          of.nats?.stream ? ['Stream', <Text key="stream" of={of.nats.stream} />] : null,
          credentials.length ? ['Credentials', credentials.join(', ')] : null,
          of.timeout ? ['Timeout', of.timeout] : null,
          of.format ? ['Format', of.format] : null,
          of.lease ? ['Lease', of.lease] : null,
          of.maxInFlight ? ['In flight, at most', count(of.maxInFlight)] : null,
          ['Rate limit', of.rateLimit?.perSecond ? `${of.rateLimit.perSecond}/s` : 'none'],
          headers.length ? ['Headers', <Text key="headers" of={headers.join(', ')} />] : null,
          ['Changed', <Ago key="changed" at={of.updatedAt} />],
        ]}
      />
    </Section>
  );
}
