import { useState } from 'preact/hooks';
import { path, send } from '../../api.ts';
import type { Listener } from '../../api-types.ts';
import { refresh } from '../../load.ts';
import { Act, ask, useAction } from '../../parts/confirm.tsx';
import { Dialog, show } from '../../parts/dialog.tsx';
import { Failed } from '../../parts/states.tsx';
import { askEdit } from './edit.tsx';
import { NewSecret } from './new-secret.tsx';
import { askReplay } from './replay.tsx';
import { startTest } from './test-dialog.tsx';

/** What an operator does with a listener. */
export function ListenerActions({ of: listener }: { of: Listener }) {
  const { name, mode, state } = listener;
  return (
    <>
      {mode !== 'pull' && (
        <Act label="Test" onClick={() => startTest(name)} title="Sends a ping now, in any state" />
      )}
      {mode === 'webhook' && <Act label="Rotate secret…" onClick={() => askRotate(name)} />}
      <Act label="Replay…" onClick={() => askReplay(name)} />
      <Act label="Edit…" onClick={() => askEdit(listener)} />
      {state === 'active' ? (
        <Act label="Pause…" onClick={() => askPause(name)} />
      ) : (
        <Act label="Resume…" kind="primary" onClick={() => askResume(name)} />
      )}
    </>
  );
}

function askPause(name: string): void {
  ask({
    title: `Pause ${name}`,
    children: 'Nothing is sent to it until it is resumed. Its deliveries wait; nothing is lost.',
    confirm: 'Pause',
    reason: 'optional',
    done: `${name} is paused.`,
    run: (reason) => send('POST', path`v1/listeners/${name}/pause`, reason ? { reason } : {}),
  });
}

export function askResume(name: string): void {
  ask({
    title: `Resume ${name}`,
    children: 'It continues from where it stopped, in order.',
    confirm: 'Resume',
    done: `${name} is active.`,
    run: () => send('POST', path`v1/listeners/${name}/resume`),
  });
}

function askRotate(name: string): void {
  show(<Rotate name={name} />);
}

function Rotate({ name }: { name: string }) {
  const [secret, setSecret] = useState<string>();
  const { isBusy, failure, start } = useAction(async () => {
    setSecret((await send<{ secret: string }>('POST', path`v1/listeners/${name}/rotate-secret`)).secret);
    refresh();
  });
  if (secret !== undefined) return <NewSecret name={name} secret={secret} />;
  return (
    <Dialog
      title={`New secret for ${name}`}
      onSubmit={start}
      footer={
        <button type="submit" class="primary" disabled={isBusy}>
          {isBusy ? 'Working…' : 'Rotate'}
        </button>
      }
    >
      <p>
        Deliveries are signed with the old and the new secret for 24 hours, so the receiver can change over
        meanwhile.
      </p>
      {failure && <Failed failure={failure} />}
    </Dialog>
  );
}
