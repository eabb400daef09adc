import { path, send } from '../../api.ts';
import type { Schedule } from '../../api-types.ts';
import { usePages } from '../../load.ts';
import { Act, ask } from '../../parts/confirm.tsx';
import { Heading } from '../../parts/heading.tsx';
import { Text } from '../../parts/links.tsx';
import { Empty, ShowPages } from '../../parts/states.tsx';
import { Status } from '../../parts/status.tsx';
import { type Column, Table } from '../../parts/table.tsx';
import { Ago, Exact } from '../../parts/time.tsx';
import { to } from '../../router.ts';
import { cronWords } from './cron-words.ts';

const COLUMNS: Column<Schedule>[] = [
  {
    head: 'Schedule',
    cell: ({ name, type }) => (
      <>
        <a href={to('messages', { type })}>
          <bdi>{name}</bdi>
        </a>
        <Text of={type} class="sub clip" />
      </>
    ),
    class: 'grow',
  },
  {
    head: 'When',
    cell: ({ cron, timezone }) => (
      <>
        {cronWords(cron)}
        <span class="sub">
          <code>{cron}</code> {timezone}
        </span>
      </>
    ),
  },
  { head: 'State', cell: ({ paused }) => <Status of={paused ? 'paused' : 'active'} /> },
  { head: 'Last', cell: ({ lastAt }) => <Ago at={lastAt} />, isNumber: true },
  { head: 'Next ticks, your time', cell: (schedule) => <Ticks of={schedule} /> },
  { head: 'Actions', cell: (schedule) => <Actions of={schedule} />, class: 'row-actions' },
];

function Ticks({ of: { nextTicks, nextAt, paused } }: { of: Schedule }) {
  const ticks = nextTicks ?? (nextAt ? [nextAt] : []);
  if (paused || ticks.length === 0) return <span class="muted">none</span>;
  return (
    <ul class="ticks">
      {ticks.map((tick, index) => (
        <li key={tick}>{index === 0 ? <Ago at={tick} /> : <Exact at={tick} />}</li>
      ))}
    </ul>
  );
}

function Actions({ of: { name, paused, type } }: { of: Schedule }) {
  const verb = paused ? 'Resume' : 'Pause';
  return (
    <>
      <Act
        label="Run now…"
        onClick={() =>
          ask({
            title: `Run ${name} now`,
            children: `A message of the type ${type} is posted now; its regular ticks stay as they are.`,
            confirm: 'Run now',
            done: `${name} was run.`,
            run: () => send('POST', path`v1/schedules/${name}/run`),
          })
        }
      />
      <Act
        label={`${verb}…`}
        onClick={() =>
          ask({
            title: `${verb} ${name}`,
            children: paused
              ? 'It continues with its next tick; missed ones are not posted.'
              : 'Nothing is posted until it is resumed.',
            confirm: verb,
            done: `${name} is ${paused ? 'active' : 'paused'}.`,
            run: () => send('POST', `${path`v1/schedules/${name}`}/${verb.toLowerCase()}`),
          })
        }
      />
    </>
  );
}

export function Schedules() {
  const schedules = usePages<Schedule>('v1/schedules', {}, 10);
  return (
    <>
      <Heading title="Schedules" lead="Messages that the service posts itself, once over all replicas." />
      <section class="panel" aria-label="Schedules">
        <ShowPages
          of={schedules}
          what="schedules"
          empty={
            <Empty title="No schedules yet">
              One is created with PUT /v1/schedules/{'{name}'}: a cron expression, a time zone and a message.
            </Empty>
          }
        >
          {(items) => <Table label="Schedules" columns={COLUMNS} rows={items} rowKey={({ name }) => name} />}
        </ShowPages>
      </section>
    </>
  );
}
