import type { ComponentChildren } from 'preact';
import type { Message, Why } from '../../api-types.ts';
import { Act } from '../../parts/confirm.tsx';
import { ListenerLink } from '../../parts/links.tsx';
import { Exact } from '../../parts/time.tsx';
import { to } from '../../router.ts';
import { askResume } from '../listeners/actions.tsx';

const WAITS = ['pending', 'processing', 'held', 'scheduled'];

/** What the message, or a delivery of it, waits for, and what can be done about it. */
export function WhyPanel({ of: { status, key }, why }: { of: Message; why: Why | undefined }) {
  const isOpen = WAITS.includes(status) || status === 'dead' || (why?.deliveries.length ?? 0) > 0;
  if (!isOpen || !why) return null;
  return (
    <section class={`why ${status === 'dead' ? 'bad' : ''}`} aria-label="Why">
      <h2>{titleOf(status)}</h2>
      {status !== 'finished' && (
        <p>
          <Explanation of={why.explanation} />{' '}
          {why.waitsFor.kind === 'hold' && <a href={to('key', { key })}>Show its key</a>}
        </p>
      )}
      {why.deliveries.map(({ id, listener, waitsFor, explanation }) => (
        <p key={id}>
          <ListenerLink name={listener} />: <Explanation of={explanation ?? ''} />{' '}
          {listener && /^(paused|disabled)-listener$/.test(waitsFor ?? '') && (
            <Act label="Resume…" onClick={() => askResume(listener)} />
          )}
        </p>
      ))}
    </section>
  );
}

function titleOf(status: string): string {
  if (WAITS.includes(status)) return 'Why does it wait?';
  return status === 'dead' ? 'Why is it dead?' : 'What is still open?';
}

/** The request that a program would send: a person has a button. */
const REQUEST = /[;:] (?:POST|PUT|DELETE) \/v1\/\S+(?=\.$)/;
const TIME = /(\d{4}-\d\d-\d\dT\d\d:\d\d:[\d.]+Z)/;

/** A sentence of the service, with its times as a person reads them. */
function Explanation({ of: sentence }: { of: string }) {
  const parts = sentence.replace(REQUEST, '').split(TIME);
  return (
    <bdi>
      {parts.map((part, index): ComponentChildren => (index % 2 ? <Exact key={part} at={part} /> : part))}
    </bdi>
  );
}
