import { to } from '../router.ts';

/** Whatever a producer sent is shown in its own direction: an override in an id must not turn the line around it. */
export function MessageLink({ id, source }: { id: string; source?: string | undefined }) {
  return (
    <a class="id" href={to('message', { id, source })}>
      <bdi>{id}</bdi>
    </a>
  );
}

export function KeyLink({ of }: { of: string | null }) {
  if (of === null) return <span class="muted">–</span>;
  return (
    <a class="id" href={to('key', { key: of })}>
      <bdi>{of}</bdi>
    </a>
  );
}

export function ListenerLink({ name }: { name: string | null | undefined }) {
  if (!name) return <span class="muted">deleted listener</span>;
  return (
    <a href={to('listener', { name })}>
      <bdi>{name}</bdi>
    </a>
  );
}

export function GroupLink({ name }: { name: string }) {
  return (
    <a href={to('group', { name })}>
      <bdi>{name}</bdi>
    </a>
  );
}

/** Foreign text. */
export function Text({ of, class: name = '' }: { of: string | null | undefined; class?: string }) {
  return of === null || of === undefined || of === '' ? (
    <span class="muted">–</span>
  ) : (
    <bdi class={name}>{of}</bdi>
  );
}
