import type { ComponentChildren } from 'preact';
import { path, send } from '../../api.ts';
import type { Attempt, Delivery, Message, MessageGroup, Ruling } from '../../api-types.ts';
import { milliseconds, plural } from '../../format.ts';
import { Act, ask } from '../../parts/confirm.tsx';
import { CopyButton } from '../../parts/copy.tsx';
import { GroupLink, ListenerLink, Text } from '../../parts/links.tsx';
import { Status, type Tone } from '../../parts/status.tsx';
import { Ago } from '../../parts/time.tsx';
import { route, to } from '../../router.ts';

const ENDED = ['finished', 'dead', 'expired', 'superseded', 'discarded'];

/** From the post to the last receiver, in the order in which it happened. */
export function Timeline({ of: message }: { of: Message }) {
  const {
    status,
    attempt,
    error,
    receivedAt,
    dueAt,
    settledAt,
    ruling,
    deliveries,
    deliveriesTotal,
    groups,
  } = message;
  const isEnded = ENDED.includes(status);
  return (
    <ol class="timeline">
      <Step tone="good" title="Accepted" at={receivedAt}>
        Stored durably; the producer got its 202.
      </Step>
      {dueAt && (
        <Step tone="quiet" title="Due" at={dueAt}>
          Not processed before this time.
        </Step>
      )}
      {error && (
        <Step tone={status === 'dead' ? 'bad' : 'warn'} title={plural(attempt, 'failed attempt')}>
          <Text of={error} class="error-text" />
        </Step>
      )}
      <Step
        tone={isEnded ? (status === 'finished' ? 'good' : status === 'dead' ? 'bad' : 'quiet') : 'busy'}
        title={titleOf(status)}
        at={isEnded ? settledAt : null}
      >
        {ruling ? <RulingText of={ruling} /> : noteOf(status)}
      </Step>
      {deliveries.map((delivery) => (
        <DeliveryStep key={delivery.id} of={delivery} />
      ))}
      {deliveriesTotal > deliveries.length && (
        <Step
          tone="quiet"
          title={`${plural(deliveriesTotal - deliveries.length, 'more delivery', 'more deliveries')}`}
        >
          Too many to show here; see the lists of the listeners.
        </Step>
      )}
      {groups.map((group) => (
        <GroupStep key={`${group.group} ${group.topic}`} of={group} />
      ))}
      {status === 'finished' && deliveries.length + groups.length === 0 && (
        <Step tone="quiet" title="No listeners">
          No listener and no topic takes messages of this type.
        </Step>
      )}
    </ol>
  );
}

function titleOf(status: string): string {
  if (status === 'finished') return 'Applied to the read models';
  if (status === 'dead') return 'Dead letter';
  return `${status.slice(0, 1).toUpperCase()}${status.slice(1)}`;
}

function noteOf(status: string): string {
  return status === 'finished' ? 'Committed together with what goes out.' : '';
}

function RulingText({ of: { kind, by, reason } }: { of: Ruling }) {
  return (
    <>
      {kind === 'discard' ? 'Discarded' : kind === 'revive' ? 'Revived' : 'Decided'} by{' '}
      <Text of={by ?? 'an operator'} />
      {reason && (
        <>
          : <Text of={reason} />
        </>
      )}
    </>
  );
}

function Step({
  tone,
  title,
  at,
  children,
}: {
  tone: Tone;
  title: ComponentChildren;
  at?: string | null | undefined;
  children?: ComponentChildren;
}) {
  return (
    <li class={tone}>
      <div class="step-title">
        <h3>{title}</h3>
        {at && <Ago at={at} />}
      </div>
      {children && <div class="step-body">{children}</div>}
    </li>
  );
}

const DELIVERY_TONES: Readonly<Record<string, Tone>> = {
  finished: 'good',
  dead: 'bad',
  held: 'warn',
  processing: 'busy',
};

function DeliveryStep({ of: delivery }: { of: Delivery }) {
  const { id, listener, status, settledAt, createdAt, attempts, attemptsTotal, error, ruling } = delivery;
  const isOpen = status !== 'finished' || route.value.query.delivery === id;
  return (
    <Step
      tone={DELIVERY_TONES[status] ?? 'quiet'}
      title={
        <>
          Delivery to <ListenerLink name={listener} /> <Status of={status} />
        </>
      }
      at={settledAt ?? createdAt}
    >
      <p class="sub">
        webhook-id <code>{id}</code> <CopyButton text={id} what="the webhook id" />
      </p>
      {ruling && <RulingText of={ruling} />}
      {error && attempts.length === 0 && <Text of={error} class="error-text" />}
      {attempts.length > 0 && (
        <details open={isOpen}>
          <summary>{plural(attemptsTotal, 'attempt')}</summary>
          <Attempts of={attempts} />
        </details>
      )}
      <DeliveryActions of={delivery} />
    </Step>
  );
}

function Attempts({ of }: { of: readonly Attempt[] }) {
  return (
    <ol class="attempts">
      {of.map(({ at, attempt, status, error, durationMs, excerpt }) => (
        <li key={`${attempt} ${at}`}>
          <span class={error === null ? 'good' : 'bad'}>{status ?? 'no response'}</span> ·{' '}
          {milliseconds(durationMs)} · <Ago at={at} />
          {error && error !== `responded ${status}` && <Text of={error} class="error-text" />}
          {excerpt && <pre class="excerpt">{excerpt}</pre>}
        </li>
      ))}
    </ol>
  );
}

function DeliveryActions({ of: { id, status, listener } }: { of: Delivery }) {
  if (!['finished', 'dead', 'discarded'].includes(status)) return null;
  return (
    <div class="step-actions">
      <Act
        label="Resend…"
        onClick={() =>
          ask({
            title: 'Send this delivery again',
            children: `It goes to ${listener} again with the same webhook-id; a receiver that remembers ids ignores it.`,
            confirm: 'Resend',
            reason: 'optional',
            done: 'It is sent again.',
            run: (reason) => send('POST', path`v1/deliveries/${id}/resend`, reason ? { reason } : {}),
          })
        }
      />
      {status === 'dead' && listener && (
        <a href={to('dead-letters', { stage: 'outbox', listener })}>All dead letters of {listener}</a>
      )}
    </div>
  );
}

function GroupStep({ of: { group, topic, partition, offset, status, explanation } }: { of: MessageGroup }) {
  return (
    <Step
      tone={status === 'processed' ? 'good' : status === 'rejected' ? 'bad' : 'quiet'}
      title={
        <>
          Group <GroupLink name={group} /> <Status of={status} />
        </>
      }
    >
      <p class="sub">
        <a href={to('topic', { name: topic })}>{topic}</a> partition {partition}, offset {offset}
      </p>
      <Text of={explanation} />
    </Step>
  );
}
