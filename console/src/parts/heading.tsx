import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

/** The title of a screen with what can be done there. Takes the focus, so that a screen reader announces the screen. */
export function Heading({
  title,
  lead,
  children,
}: {
  title: string;
  lead?: ComponentChildren;
  children?: ComponentChildren;
}) {
  const element = useRef<HTMLHeadingElement>(null);
  useEffect(() => element.current?.focus({ preventScroll: true }), []);
  useEffect(() => {
    document.title = `${title} · Sluice`;
  }, [title]);
  return (
    <header class="heading">
      <div>
        <h1 tabIndex={-1} ref={element}>
          <bdi>{title}</bdi>
        </h1>
        {lead && <p class="lead">{lead}</p>}
      </div>
      {children && <div class="actions">{children}</div>}
    </header>
  );
}

export function Section({
  title,
  note,
  actions,
  children,
}: {
  title: string;
  note?: ComponentChildren;
  actions?: ComponentChildren;
  children: ComponentChildren;
}) {
  return (
    <section class="panel" aria-label={title}>
      <header>
        <h2>{title}</h2>
        {note && <span class="muted">{note}</span>}
        {actions && <div class="actions">{actions}</div>}
      </header>
      {children}
    </section>
  );
}

/** Names and values side by side. */
export function Facts({ of }: { of: readonly (readonly [name: string, value: ComponentChildren] | null)[] }) {
  return (
    <dl class="facts">
      {of
        .filter((fact) => fact !== null)
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}
