import { useState } from 'preact/hooks';
import type { Replica, Setting } from '../../api-types.ts';
import { useGet } from '../../load.ts';
import { Heading, Section } from '../../parts/heading.tsx';
import { Text } from '../../parts/links.tsx';
import { Show } from '../../parts/states.tsx';
import { Status } from '../../parts/status.tsx';
import { type Column, Table } from '../../parts/table.tsx';
import { Ago } from '../../parts/time.tsx';
import { mayAct, session } from '../../session.ts';
import { ApiKeys } from './api-keys.tsx';
import { type Check, checksOf } from './checks.ts';

const REPLICAS: Column<Replica>[] = [
  {
    head: 'Replica',
    cell: ({ id, host }) => (
      <>
        <code>{id}</code>
        <Text of={host} class="sub" />
      </>
    ),
    class: 'grow',
  },
  { head: 'State', cell: ({ alive }) => <Status of={alive ? 'live' : 'gone'} /> },
  { head: 'Roles', cell: ({ roles }) => roles.join(', ') },
  { head: 'Version', cell: ({ version }) => version },
  { head: 'Lanes: inbox', cell: ({ lanes }) => lanes.inbox, isNumber: true },
  { head: 'Outbox', cell: ({ lanes }) => lanes.outbox, isNumber: true },
  { head: 'Seen', cell: ({ seenAt }) => <Ago at={seenAt} />, isNumber: true },
  { head: 'Started', cell: ({ startedAt }) => <Ago at={startedAt} />, isNumber: true },
];

const SETTINGS: Column<Setting>[] = [
  { head: 'Setting', cell: ({ name }) => <code>{name}</code> },
  { head: 'Value', cell: (setting) => <Value of={setting} />, class: 'value' },
  { head: 'Default', cell: ({ default: value }) => <Text of={value} /> },
  {
    head: 'What it does',
    cell: ({ description }) => <Text of={plain(description)} />,
    class: 'grow',
  },
];

/** Without marks of code and links, which lead to files of the documentation. */
function plain(markdown: string): string {
  return markdown.replaceAll('`', '').replaceAll(/\[([^\]]+)\]\([^)]+\)/g, '$1');
}

function Value({ of: { value, isSet, isSecret } }: { of: Setting }) {
  if (isSecret) return <span class="muted">{isSet ? '(secret, set)' : '(not set)'}</span>;
  return isSet ? (
    <strong>
      <Text of={value} />
    </strong>
  ) : (
    <Text of={value} />
  );
}

/** What runs here and how. */
export function System() {
  const replicas = useGet<{ items: readonly Replica[] }>('v1/replicas', {}, 5);
  const settings = useGet<{ items: readonly Setting[] }>(mayAct() ? 'v1/settings' : undefined);
  const state = session.value;
  return (
    <>
      <Heading title="System" lead={state.kind === 'signed-in' && `Version ${state.session.version}`} />
      <Checks of={checksOf(replicas.data?.items, settings.data?.items)} />
      <Section title="Replicas">
        <Show of={replicas} what="the replicas">
          {({ items }) => <Table label="Replicas" columns={REPLICAS} rows={items} rowKey={({ id }) => id} />}
        </Show>
      </Section>
      {mayAct() && (
        <>
          <ApiKeys />
          <Section title="Settings" note="of the replica that responded; bold ones are set">
            <Show of={settings} what="the settings">
              {({ items }) => <Settings of={items} />}
            </Show>
          </Section>
        </>
      )}
    </>
  );
}

/** Those that somebody has set; the others on demand. */
function Settings({ of }: { of: readonly Setting[] }) {
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? of : of.filter(({ isSet }) => isSet);
  return (
    <>
      {shown.length > 0 && (
        <Table label="Settings" columns={SETTINGS} rows={shown} rowKey={({ name }) => name} />
      )}
      <p class="more-note">
        <button type="button" class="link" aria-expanded={isWhole} onClick={() => setWhole(!isWhole)}>
          {isWhole ? 'Show those that are set only' : `Show all ${of.length} settings`}
        </button>
      </p>
    </>
  );
}

function Checks({ of }: { of: readonly Check[] }) {
  return (
    <Section title="Checks">
      <ul class="checks">
        {of.map(({ what, result, detail }) => (
          <li key={what} class={result}>
            <span class="check-result">
              {result === 'good' ? 'ok' : result === 'bad' ? 'problem' : 'notice'}
            </span>
            <strong>{what}</strong> <span>{detail}</span>
          </li>
        ))}
      </ul>
    </Section>
  );
}
