import type { ComponentChildren } from 'preact';
import type { Activity, GroupBacklog, ListenerBacklog, Rates } from '../../api-types.ts';
import { count, duration, perSecond, plural, shortCount } from '../../format.ts';
import { counted } from '../../parts/counted.ts';
import { GroupLink, ListenerLink } from '../../parts/links.tsx';
import { Sparkline } from '../../parts/sparkline.tsx';
import { Alarming, Status } from '../../parts/status.tsx';
import { type Column, Table } from '../../parts/table.tsx';
import { to } from '../../router.ts';

/** The rest is on the screens of listeners and groups. */
const SHOWN = 8;

export function Listeners({
  backlog,
  rates,
  activity,
}: {
  backlog: readonly ListenerBacklog[];
  rates: Rates;
  activity: Activity | undefined;
}) {
  const rateOf = (name: string) => rates.listeners.find((one) => one.name === name);
  const columns: Column<ListenerBacklog>[] = [
    { head: 'Listener', cell: (row) => <ListenerName of={row} />, class: 'grow' },
    {
      head: 'Delivered',
      cell: ({ name }) => (
        <span class="rate-cell">
          <Sparkline
            of={activity?.listeners.find((one) => one.name === name)?.delivered}
            label={`Delivered to ${name}`}
          />
          <span class="live-number">{perSecond(rateOf(name)?.deliveredPerSecond ?? 0)}</span>
        </span>
      ),
      isNumber: true,
    },
    { head: 'Waiting', cell: (row) => <Amount of={[row.ready, row.held]} />, isNumber: true },
    {
      head: 'Oldest',
      cell: (row) => <Age seconds={row.oldestSeconds} of={row.ready + row.held} />,
      isNumber: true,
    },
    {
      head: 'Dead',
      cell: ({ name, deadLetters }) => (
        <Dead value={deadLetters} isCounted link={to('dead-letters', { stage: 'outbox', listener: name })} />
      ),
      isNumber: true,
    },
  ];
  return (
    <Receivers
      title="Listeners"
      what="Webhooks sent, and queues that consumers pull from"
      link={to('listeners')}
      total={backlog.length}
      empty="No listeners yet. One gets every message of its types as a signed webhook."
    >
      <Table
        label="Listeners"
        columns={columns}
        rows={worstFirst(backlog, urgencyOfListener)}
        rowKey={({ name }) => name}
      />
    </Receivers>
  );
}

function ListenerName({ of: { name, state, circuitOpen } }: { of: ListenerBacklog }) {
  const shown = state === 'active' ? circuitOpen && 'circuit open' : state;
  return (
    <>
      <ListenerLink name={name} /> {shown && <Status of={shown} />}
    </>
  );
}

export function Groups({
  backlog,
  rates,
  activity,
}: {
  backlog: readonly GroupBacklog[];
  rates: Rates;
  activity: Activity | undefined;
}) {
  const rateOf = (name: string) => rates.groups.find((one) => one.name === name)?.committedPerSecond ?? 0;
  const columns: Column<GroupBacklog>[] = [
    { head: 'Group', cell: ({ name }) => <GroupLink name={name} />, class: 'grow' },
    {
      head: 'Committed',
      cell: ({ name }) => (
        <span class="rate-cell">
          <Sparkline
            of={activity?.groups.find((one) => one.name === name)?.committed}
            label={`Committed by ${name}`}
          />
          <span class="live-number">{perSecond(rateOf(name))}</span>
        </span>
      ),
      isNumber: true,
    },
    { head: 'Lag', cell: (row) => <Lag value={row.lag} />, isNumber: true },
    { head: 'Oldest', cell: (row) => <Age seconds={row.lagSeconds} of={row.lag} />, isNumber: true },
    {
      head: 'Dead',
      cell: ({ name, deadLetters }) => (
        <Dead value={deadLetters} link={to('dead-letters', { stage: 'group', group: name })} />
      ),
      isNumber: true,
    },
  ];
  return (
    <Receivers
      title="Topics and groups"
      what="Messages kept in topics, read by consumer groups"
      link={to('topics')}
      total={backlog.length}
      empty="No consumer groups yet. One reads a topic at its own pace and commits how far it is."
    >
      <Table
        label="Consumer groups"
        columns={columns}
        rows={worstFirst(backlog, urgencyOfGroup)}
        rowKey={({ name }) => name}
      />
    </Receivers>
  );
}

function Receivers({
  title,
  what,
  link,
  total,
  empty,
  children,
}: {
  title: string;
  what: string;
  link: string;
  total: number;
  empty: string;
  children: ComponentChildren;
}) {
  return (
    <article class="stage receiver">
      <h2>
        <a href={link}>{title}</a>
      </h2>
      <p class="muted">{what}</p>
      {total === 0 ? <p class="muted none">{empty}</p> : children}
      {total > SHOWN && (
        <p class="more-note">
          <a href={link}>and {plural(total - SHOWN, 'more', 'more')}</a>
        </p>
      )}
    </article>
  );
}

/** Those in trouble, then by name: a row moves only when its trouble begins or ends. */
function worstFirst<T extends { readonly name: string }>(
  all: readonly T[],
  urgencyOf: (one: T) => number,
): T[] {
  return all.toSorted((a, b) => urgencyOf(b) - urgencyOf(a) || (a.name < b.name ? -1 : 1)).slice(0, SHOWN);
}

function urgencyOfListener({ state, circuitOpen, deadLetters }: ListenerBacklog): number {
  return (state === 'disabled' ? 4 : 0) + (circuitOpen ? 2 : 0) + (deadLetters > 0 ? 1 : 0);
}

function urgencyOfGroup({ expired, unownedPartitions, deadLetters }: GroupBacklog): number {
  return (expired > 0 ? 4 : 0) + (unownedPartitions > 0 ? 2 : 0) + (deadLetters > 0 ? 1 : 0);
}

function Amount({ of }: { of: readonly number[] }) {
  return (
    <span class={`live-number ${of.some((one) => one > 0) ? '' : 'muted'}`} title={counted(of, count)}>
      {counted(of, shortCount)}
    </span>
  );
}

function Lag({ value }: { value: number }) {
  return (
    <span class={`live-number ${value ? '' : 'muted'}`} title={count(value)}>
      {shortCount(value)}
    </span>
  );
}

function Age({ seconds, of }: { seconds: number; of: number }) {
  return <span class={`live-number ${of ? '' : 'muted'}`}>{of ? duration(seconds) : '–'}</span>;
}

function Dead({ value, isCounted, link }: { value: number; isCounted?: boolean; link: string }) {
  const text = isCounted ? counted([value], shortCount) : shortCount(value);
  return <Alarming value={value}>{value ? <a href={link}>{text}</a> : '0'}</Alarming>;
}
