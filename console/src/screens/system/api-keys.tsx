import { useState } from 'preact/hooks';
import { path, send } from '../../api.ts';
import type { ApiKey, Scope } from '../../api-types.ts';
import { refresh, usePages } from '../../load.ts';
import { Act, ask, useAction } from '../../parts/confirm.tsx';
import { copy } from '../../parts/copy.tsx';
import { Dialog, show } from '../../parts/dialog.tsx';
import { Section } from '../../parts/heading.tsx';
import { Text } from '../../parts/links.tsx';
import { Empty, Failed, ShowPages } from '../../parts/states.tsx';
import { Status } from '../../parts/status.tsx';
import { type Column, Table } from '../../parts/table.tsx';
import { Ago } from '../../parts/time.tsx';

const SCOPES: readonly Scope[] = ['produce', 'consume', 'read', 'admin'];

const COLUMNS: Column<ApiKey>[] = [
  { head: 'Name', cell: ({ name }) => <Text of={name} />, class: 'grow' },
  { head: 'Id', cell: ({ id }) => <code>{id}</code> },
  { head: 'Scopes', cell: ({ scopes }) => scopes.join(', ') },
  { head: 'State', cell: ({ revokedAt }) => <Status of={revokedAt ? 'revoked' : 'active'} /> },
  { head: 'Created', cell: ({ createdAt }) => <Ago at={createdAt} />, isNumber: true },
  {
    head: 'Actions',
    cell: (key) => !key.revokedAt && <Act label="Revoke…" onClick={() => askRevoke(key)} />,
    class: 'row-actions',
  },
];

function askRevoke({ id, name }: ApiKey): void {
  ask({
    title: `Revoke ${name}`,
    children: 'Every replica refuses it within 5 seconds, and its sessions end. It cannot be undone.',
    confirm: 'Revoke',
    isDangerous: true,
    done: `${name} is revoked.`,
    run: () => send('DELETE', path`v1/api-keys/${id}`),
  });
}

export function ApiKeys() {
  const keys = usePages<ApiKey>('v1/api-keys');
  return (
    <Section
      title="API keys"
      note="without those of API_KEYS"
      actions={<Act label="New key…" onClick={() => show(<NewKey />)} />}
    >
      <ShowPages
        of={keys}
        what="API keys"
        empty={<Empty title="No stored keys">Those in the setting API_KEYS are not listed.</Empty>}
      >
        {(items) => <Table label="API keys" columns={COLUMNS} rows={items} rowKey={({ id }) => id} />}
      </ShowPages>
    </Section>
  );
}

function NewKey() {
  const [name, setName] = useState('');
  const [scopes, setScopes] = useState<readonly Scope[]>(['produce']);
  const [secret, setSecret] = useState<string>();
  const { isBusy, failure, start } = useAction(async () => {
    setSecret((await send<{ key: string }>('POST', 'v1/api-keys', { name, scopes })).key);
    refresh();
  });
  if (secret !== undefined)
    return (
      <Dialog
        title={`The key of ${name}`}
        footer={
          <button type="button" class="primary" onClick={() => void copy(secret, 'the key')}>
            Copy
          </button>
        }
      >
        <p>Keep it now: only a hash is stored, so it is not shown again.</p>
        <p>
          <code class="secret">{secret}</code>
        </p>
      </Dialog>
    );
  const toggle = (scope: Scope) =>
    setScopes(scopes.includes(scope) ? scopes.filter((one) => one !== scope) : [...scopes, scope]);
  return (
    <Dialog
      title="New API key"
      onSubmit={start}
      footer={
        <button type="submit" class="primary" disabled={isBusy || name === '' || scopes.length === 0}>
          {isBusy ? 'Creating…' : 'Create'}
        </button>
      }
    >
      <label class="field">
        <span>Name: who calls; also the source of the messages it posts</span>
        <input name="name" required value={name} onInput={(event) => setName(event.currentTarget.value)} />
      </label>
      <fieldset>
        <legend>Scopes</legend>
        {SCOPES.map((scope) => (
          <label key={scope} class="check">
            <input type="checkbox" checked={scopes.includes(scope)} onChange={() => toggle(scope)} />
            <span>{scope}</span>
          </label>
        ))}
      </fieldset>
      {failure && <Failed failure={failure} />}
    </Dialog>
  );
}
