import { useEffect, useState } from 'preact/hooks';
import { path, send } from '../../api.ts';
import type { PingOutcome } from '../../api-types.ts';
import { duration } from '../../format.ts';
import { useAction } from '../../parts/confirm.tsx';
import { Dialog, show } from '../../parts/dialog.tsx';
import { Failed } from '../../parts/states.tsx';

/** Sends a ping at once: it changes nothing, so there is nothing to confirm. */
export function startTest(name: string): void {
  show(<Test name={name} />);
}

function Test({ name }: { name: string }) {
  const [outcome, setOutcome] = useState<PingOutcome>();
  const { isBusy, failure, start } = useAction(async () =>
    setOutcome(await send<PingOutcome>('POST', path`v1/listeners/${name}/test`)),
  );
  useEffect(start, []);
  return (
    <Dialog
      title={`Test ${name}`}
      footer={
        <button type="button" disabled={isBusy} onClick={start}>
          Again
        </button>
      }
    >
      {isBusy && <p>Sending a ping and waiting for the response…</p>}
      {!isBusy && outcome && (
        <p class={outcome.delivered ? 'good' : 'bad'} role="status">
          {outcome.delivered ? (
            `It responded ${outcome.status ?? 'that it is stored'}`
          ) : (
            <bdi>{outcome.error}</bdi>
          )}{' '}
          after {duration(outcome.durationMs / 1_000)}.
        </p>
      )}
      {failure && <Failed failure={failure} />}
    </Dialog>
  );
}
