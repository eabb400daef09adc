import { path, send } from '../../api.ts';
import type { AuditEntry, ReplayJob, RulingJob } from '../../api-types.ts';
import { count } from '../../format.ts';
import { useGet, usePages } from '../../load.ts';
import { Act, ask } from '../../parts/confirm.tsx';
import { ChoiceFilter, Filters, TimeFilter } from '../../parts/fields.tsx';
import { Heading, Section } from '../../parts/heading.tsx';
import { KeyLink, ListenerLink, Text } from '../../parts/links.tsx';
import { Empty, Show, ShowPages } from '../../parts/states.tsx';
import { Status } from '../../parts/status.tsx';
import { type Column, Table } from '../../parts/table.tsx';
import { Ago, Exact } from '../../parts/time.tsx';
import { route, to } from '../../router.ts';
import { FilterText, RulingProgress } from '../dead-letters/bulk.tsx';
import { ReplayProgress } from '../listeners/replay.tsx';
import { RebuildProgress, RebuildState } from '../read-models/progress.tsx';
import { ReadModelLink } from '../read-models/read-models.tsx';
import type { ReadModel, Rebuild } from '../read-models/types.ts';

const ACTIONS = [
  'dead-letters.*',
  'hold.*',
  'listener.*',
  'api-key.*',
  'schedule.*',
  'topic.*',
  'group.*',
  'read-model.*',
  'history.*',
];

/** Running jobs, and who did what. */
export function ActivityScreen() {
  const { action, since } = route.value.query;
  const audit = usePages<AuditEntry>('v1/audit', { action, since });
  return (
    <>
      <Heading title="Activity" lead="What runs in the background, and who did what, when and why." />
      <Rulings />
      <Replays />
      <Rebuilds />
      <Section title="Audit log" note="newest first">
        <Filters isInside>
          <ChoiceFilter name="action" label="What" value={action} choices={ACTIONS} />
          <TimeFilter name="since" label="Since" value={since} />
        </Filters>
        <ShowPages
          of={audit}
          what="entries"
          empty={<Empty title="Nothing was done">Every action of an operator is recorded here.</Empty>}
        >
          {(items) => <Table label="Audit log" columns={AUDIT} rows={items} rowKey={({ id }) => id} />}
        </ShowPages>
      </Section>
    </>
  );
}

const AUDIT: Column<AuditEntry>[] = [
  { head: 'When', cell: ({ at }) => <Exact at={at} /> },
  { head: 'Who', cell: ({ by }) => <Text of={by} /> },
  { head: 'What', cell: ({ action }) => <code>{action}</code> },
  { head: 'To', cell: (entry) => <Target of={entry} />, class: 'filter-cell' },
  { head: 'How many', cell: (entry) => (entry.count === null ? '' : count(entry.count)), isNumber: true },
  { head: 'Filter', cell: ({ filter }) => <FilterCell of={filter} />, class: 'filter-cell' },
  { head: 'Reason', cell: ({ reason }) => <Text of={reason} />, class: 'grow' },
];

/** What was acted on, as a link where it has a screen of its own. */
function Target({ of: { action, target } }: { of: AuditEntry }) {
  const kind = action.split('.')[0]!;
  if (target === null) return <Text of={null} />;
  if (kind === 'hold') return <KeyLink of={target} />;
  // A skip has the message behind the name.
  if (kind === 'read-model') return <ReadModelLink name={target.split(': ')[0]!} />;
  if (!['listener', 'topic', 'group'].includes(kind)) return <Text of={target} class="clip" />;
  return (
    <a href={to(kind, { name: target })}>
      <bdi>{target}</bdi>
    </a>
  );
}

function FilterCell({ of }: { of: unknown }) {
  const isEmpty = !of || Object.keys(of).length === 0;
  return !isEmpty ? <Text of={JSON.stringify(of)} class="clip code" /> : <Text of={null} />;
}

const RULINGS: Column<RulingJob>[] = [
  { head: 'What', cell: ({ kind }) => kind },
  { head: 'Progress', cell: (job) => <RulingProgress of={job} />, class: 'grow' },
  { head: 'Filter', cell: ({ filter }) => <FilterText of={filter} /> },
  { head: 'State', cell: ({ status }) => <Status of={status} /> },
  { head: 'By', cell: ({ createdBy }) => <Text of={createdBy} /> },
  { head: 'Started', cell: ({ createdAt }) => <Ago at={createdAt} />, isNumber: true },
  {
    head: 'Actions',
    cell: ({ id, status, remaining }) =>
      status === 'running' &&
      remaining > 0 && (
        <Cancel
          at={path`v1/dead-letters/rulings/${id}/cancel`}
          what="What is done stays done; the rest stays dead."
        />
      ),
    class: 'row-actions',
  },
];

function Rulings() {
  const rulings = usePages<RulingJob>('v1/dead-letters/rulings', { limit: 20 }, 2);
  return (
    <Section title="Revives and discards">
      <ShowPages
        of={rulings}
        what="revives and discards"
        empty={
          <Empty isSlim title="None yet.">
            A revive or discard by filter shows its progress here.
          </Empty>
        }
      >
        {(items) => (
          <Table label="Revives and discards" columns={RULINGS} rows={items} rowKey={({ id }) => id} />
        )}
      </ShowPages>
    </Section>
  );
}

const REPLAYS: Column<ReplayJob>[] = [
  { head: 'Listener', cell: ({ listener }) => <ListenerLink name={listener} /> },
  { head: 'Progress', cell: (job) => <ReplayProgress of={job} />, class: 'grow' },
  { head: 'State', cell: ({ status }) => <Status of={status} /> },
  { head: 'By', cell: ({ createdBy }) => <Text of={createdBy} /> },
  { head: 'Started', cell: ({ createdAt }) => <Ago at={createdAt} />, isNumber: true },
  {
    head: 'Actions',
    cell: ({ id, listener, status }) =>
      status === 'running' && (
        <Cancel
          at={path`v1/listeners/${listener ?? ''}/replays/${id}/cancel`}
          what="What was sent stays sent; the rest is not sent again."
        />
      ),
    class: 'row-actions',
  },
];

function Replays() {
  const replays = usePages<ReplayJob>('v1/replays', { limit: 20 }, 2);
  return (
    <Section title="Replays">
      <ShowPages
        of={replays}
        what="replays"
        empty={
          <Empty isSlim title="None yet.">
            A replay to a listener shows its progress here.
          </Empty>
        }
      >
        {(items) => <Table label="Replays" columns={REPLAYS} rows={items} rowKey={({ id }) => id} />}
      </ShowPages>
    </Section>
  );
}

const REBUILDS: Column<Rebuild>[] = [
  { head: 'Read model', cell: ({ model }) => <ReadModelLink name={model} /> },
  { head: 'Progress', cell: (rebuild) => <RebuildProgress of={rebuild} />, class: 'grow' },
  { head: 'State', cell: (rebuild) => <RebuildState of={rebuild} /> },
  { head: 'By', cell: ({ createdBy }) => <Text of={createdBy} /> },
  { head: 'Started', cell: ({ createdAt }) => <Ago at={createdAt} />, isNumber: true },
];

function Rebuilds() {
  const models = useGet<{ items: readonly ReadModel[] }>('v1/read-models', {}, 2);
  return (
    <Section title="Rebuilds" note="the latest of each read model">
      <Show of={models} what="rebuilds">
        {({ items }) => {
          const rebuilds = items.flatMap(({ rebuild }) => rebuild ?? []);
          return rebuilds.length === 0 ? (
            <Empty isSlim title="None yet.">
              A rebuild of a read model shows its progress here.
            </Empty>
          ) : (
            <Table label="Rebuilds" columns={REBUILDS} rows={rebuilds} rowKey={({ id }) => id} />
          );
        }}
      </Show>
    </Section>
  );
}

function Cancel({ at, what }: { at: string; what: string }) {
  return (
    <Act
      label="Cancel…"
      onClick={() =>
        ask({
          title: 'Cancel',
          children: what,
          confirm: 'Cancel it',
          isDangerous: true,
          done: 'It is cancelled.',
          run: () => send('POST', at),
        })
      }
    />
  );
}
