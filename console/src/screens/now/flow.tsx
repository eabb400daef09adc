import type { ComponentChildren } from 'preact';
import type { Activity, Backlog, Rates, Series } from '../../api-types.ts';
import { count, duration, perSecond, plural, shortCount } from '../../format.ts';
import { Sparkline } from '../../parts/sparkline.tsx';
import { to } from '../../router.ts';
import { Groups, Listeners } from './receivers.tsx';

/** The life of a message, from left to right and then down to those who get it. */
export function Flow({
  backlog,
  rates,
  activity,
}: {
  backlog: Backlog;
  rates: Rates;
  activity: Activity | undefined;
}) {
  const { inbox } = backlog;
  return (
    <section class="flow" aria-label="The life of a message">
      <p class="caption muted">
        <strong>The life of a message</strong> · rates of the last {rates.windowSeconds} seconds, curves of
        the last 15 minutes
      </p>
      <div class="stages">
        <Stage
          title="Accepted"
          what="Producers post messages"
          link={to('messages')}
          rate={rates.acceptedPerSecond}
          series={activity?.inbox.accepted}
        />
        <Arrow isMoving={rates.acceptedPerSecond > 0} />
        <Stage
          title="Inbox"
          what="Stored; wait for their turn, in order per key"
          link={to('messages', { status: 'pending' })}
        >
          <Fact name="waiting" value={inbox.ready} />
          <Fact
            name="oldest"
            value={inbox.ready + inbox.held ? inbox.oldestSeconds : 0}
            text={inbox.ready + inbox.held ? duration(inbox.oldestSeconds) : '–'}
          />
          <Fact name="held" value={inbox.held} link={to('holds')} />
          <Fact name="scheduled" value={inbox.scheduled} link={to('messages', { status: 'scheduled' })} />
          <Fact name="dead" value={inbox.deadLetters} link={to('dead-letters', { stage: 'inbox' })} isBad />
        </Stage>
        <Arrow isMoving={rates.appliedPerSecond > 0} />
        <Stage
          title="Read models"
          what="Applied in one transaction"
          link={to('messages', { status: 'finished' })}
          rate={rates.appliedPerSecond}
          series={activity?.inbox.applied}
        />
      </div>
      <Fork isMoving={rates.appliedPerSecond > 0} />
      <div class="receivers">
        <Listeners backlog={backlog.listeners} rates={rates} activity={activity} />
        <Groups backlog={backlog.groups} rates={rates} activity={activity} />
      </div>
    </section>
  );
}

function Stage({
  title,
  what,
  link,
  rate,
  series,
  children,
}: {
  title: string;
  what: string;
  link: string;
  rate?: number;
  series?: Series | undefined;
  children?: ComponentChildren;
}) {
  return (
    <article class="stage">
      <h2>
        <a href={link}>{title}</a>
      </h2>
      <p class="muted">{what}</p>
      {rate !== undefined && (
        <>
          <p class="rate live-number">{perSecond(rate)}</p>
          <Sparkline of={series} label={title} wide />
        </>
      )}
      {children && <dl>{children}</dl>}
    </article>
  );
}

function Fact({
  name,
  value,
  text,
  link,
  isBad,
}: {
  name: string;
  value: number;
  text?: string;
  link?: string;
  isBad?: boolean;
}) {
  const shown = text ?? shortCount(value);
  const tone = value === 0 ? 'muted' : isBad ? 'alarming' : '';
  return (
    <div>
      <dt>{name}</dt>
      <dd class={`live-number ${tone}`} title={text ? undefined : count(value)}>
        {link && value > 0 ? (
          <a href={link} aria-label={plural(value, `${name} message`)}>
            {shown}
          </a>
        ) : (
          shown
        )}
      </dd>
    </div>
  );
}

function Arrow({ isMoving }: { isMoving: boolean }) {
  return (
    <svg class={`arrow ${isMoving ? 'moving' : ''}`} viewBox="0 0 36 12" aria-hidden="true">
      <path class="pipe" d="M0 6H30" />
      <path class="tip" d="M29 2l5 4-5 4z" />
    </svg>
  );
}

/** From the read models down to the two kinds of receivers. */
function Fork({ isMoving }: { isMoving: boolean }) {
  return (
    <svg
      class={`fork ${isMoving ? 'moving' : ''}`}
      viewBox="0 0 100 30"
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      <path class="pipe" d="M85 0V13H24.6V30" />
      <path class="pipe" d="M75.4 13V30" />
    </svg>
  );
}
