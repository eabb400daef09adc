import type { ComponentChildren } from 'preact';
import type { Failure } from '../api.ts';
import type { Loaded, Pages } from '../load.ts';
import { AsOf } from './as-of.tsx';

/** What would be here, when nothing is. */
export function Empty({
  title,
  isSlim = false,
  children,
}: {
  title: string;
  /** One line, where other things on the screen matter more. */
  isSlim?: boolean;
  children?: ComponentChildren;
}) {
  return (
    <div class={isSlim ? 'empty slim' : 'empty'}>
      <p class="empty-title">{title}</p>
      {children && <p>{children}</p>}
    </div>
  );
}

/** What went wrong and what to do. */
export function Failed({ failure, retry }: { failure: Failure; retry?: () => void }) {
  return (
    <div class="failed" role="alert">
      <p>
        <strong>{failure.title}.</strong> {failure.detail}
      </p>
      {retry && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

/** The three states of something that is loaded. Old data stay visible beside the failure of a repetition. */
export function Show<T>({
  of,
  what,
  children,
}: {
  of: Loaded<T>;
  what: string;
  children: (data: T) => ComponentChildren;
}) {
  return (
    <>
      {of.failure && <Failed failure={of.failure} retry={of.reload} />}
      {of.isLoading && <p class="loading">Loading {what}…</p>}
      <AsOf of={of} />
      {of.data !== undefined && children(of.data)}
    </>
  );
}

export function ShowPages<T>({
  of,
  what,
  empty,
  children,
}: {
  of: Pages<T>;
  what: string;
  empty: ComponentChildren;
  children: (items: readonly T[]) => ComponentChildren;
}) {
  const isEmpty = !of.isLoading && !of.failure && of.items.length === 0 && !of.hasMore;
  return (
    <>
      {of.failure && <Failed failure={of.failure} retry={of.reload} />}
      {of.isLoading && <p class="loading">Loading {what}…</p>}
      <AsOf of={of} />
      {isEmpty && empty}
      {of.items.length > 0 && children(of.items)}
      {of.hasMore && (
        <button type="button" class="more" onClick={of.more} disabled={of.isLoadingMore}>
          {of.isLoadingMore ? `Loading more ${what}…` : `Load more ${what}`}
        </button>
      )}
    </>
  );
}
