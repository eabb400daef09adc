import { path, send } from '../../api.ts';
import { plural } from '../../format.ts';
import { Act, ask, type Confirmation } from '../../parts/confirm.tsx';
import { show } from '../../parts/dialog.tsx';
import { StartRebuild } from './start.tsx';
import type { ReadModel, Rebuild, RebuildStatus } from './types.ts';

type Control = 'pause' | 'resume' | 'cancel' | 'switch' | 'rollback' | 'drop';

const AT_WORK: readonly RebuildStatus[] = ['building', 'replaying', 'comparing', 'ready', 'switching'];

/** What an operator can do with a read model in the state of its rebuild. */
export function ReadModelActions({ of: { name, rebuild } }: { of: ReadModel }) {
  if (!rebuild || rebuild.endedAt)
    return <Act label="Rebuild…" kind="primary" onClick={() => show(<StartRebuild name={name} />)} />;
  const { status, paused, failure } = rebuild;
  const canStep = status === 'switched' || status === 'rolled-back';
  return (
    <>
      {AT_WORK.includes(status) &&
        (paused ? (
          <Step of={rebuild} label="Resume…" what="resume" isMain />
        ) : (
          <Step of={rebuild} label="Pause…" what="pause" />
        ))}
      {!canStep && <Step of={rebuild} label="Cancel…" what="cancel" />}
      {canStep && <Step of={rebuild} label="Drop…" what="drop" />}
      {failure?.id !== undefined && (
        <Act label="Skip the message…" kind="primary" onClick={() => askSkip(name, failure.id!)} />
      )}
      {status === 'switched' && <Step of={rebuild} label="Roll back…" what="rollback" />}
      {(status === 'ready' || status === 'rolled-back') && (
        <Step of={rebuild} label="Switch…" what="switch" isMain />
      )}
    </>
  );
}

function Step({
  of,
  label,
  what,
  isMain = false,
}: {
  of: Rebuild;
  label: string;
  what: Control;
  isMain?: boolean;
}) {
  return (
    <Act
      label={label}
      kind={isMain ? 'primary' : ''}
      onClick={() =>
        ask({
          ...questionOf(of)[what],
          run: () => send('POST', `${path`v1/read-models/${of.model}/rebuild`}/${what}`),
        })
      }
    />
  );
}

function questionOf(rebuild: Rebuild): Record<Control, Omit<Confirmation, 'run'>> {
  const { model, schema, status } = rebuild;
  return {
    pause: {
      title: `Pause the rebuild of ${model}`,
      children: 'It stops after the batches in flight, and goes on from there when it is resumed.',
      confirm: 'Pause',
      done: 'The rebuild is paused.',
    },
    resume: {
      title: `Resume the rebuild of ${model}`,
      children: 'It goes on from where it was paused.',
      confirm: 'Resume',
      done: 'The rebuild goes on.',
    },
    cancel: {
      title: `Cancel the rebuild of ${model}`,
      children: `What it has computed is dropped, with the schema ${schema}. The living tables stay as they are.`,
      confirm: 'Cancel the rebuild',
      isDangerous: true,
      done: 'The rebuild is cancelled.',
    },
    switch: {
      title: `Switch ${model} to its new tables`,
      children: switchText(rebuild),
      confirm: 'Switch',
      done: 'It applies the last messages, then switches.',
    },
    rollback: {
      title: `Roll ${model} back`,
      children:
        'What came since the switch is applied to the previous tables, then they are the living ones again. The new ones are kept: you can switch to them again.',
      confirm: 'Roll back',
      isDangerous: true,
      done: 'It applies what came since the switch, then switches back.',
    },
    drop: {
      title: `Drop ${schema}`,
      children: `The ${status === 'switched' ? 'previous' : 'new'} tables of ${model} are dropped. There is no way back to them.`,
      confirm: 'Drop',
      isDangerous: true,
      done: `${schema} is dropped.`,
    },
  };
}

function switchText({ leftOut, diff }: Rebuild): string {
  const rows = diff?.tables.reduce((sum, one) => sum + one.different + one.onlyOld + one.onlyNew, 0) ?? 0;
  const differ =
    rows === 0
      ? 'They did not differ when they were compared.'
      : `${plural(rows, 'row')} differed when they were compared.`;
  const left =
    leftOut === 0
      ? ''
      : ` ${plural(leftOut, 'message')} that failed ${leftOut === 1 ? 'is' : 'are'} left out: the switch accepts that.`;
  return `The last messages are applied, no message for a moment, then readers see the new tables. ${differ}${left} The previous tables are kept for a rollback.`;
}

function askSkip(model: string, id: string): void {
  ask({
    title: 'Leave out the message',
    children: `The rebuild of ${model} goes on without ${id}: what it did to the living tables will be missing in the new ones.`,
    confirm: 'Skip it',
    isDangerous: true,
    reason: 'required',
    done: `The rebuild goes on without ${id}.`,
    run: (reason) => send('POST', path`v1/read-models/${model}/rebuild/skip`, { reason }),
  });
}
