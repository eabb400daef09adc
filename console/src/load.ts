import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { type Failure, fetchShared, get } from './api.ts';
import type { Page } from './api-types.ts';
import { paused } from './live.ts';

export interface Loaded<T> {
  readonly data: T | undefined;
  readonly failure: Failure | undefined;
  readonly isLoading: boolean;
  /** When the data came, by this browser's clock. */
  readonly at: number | undefined;
  /** How often they should be new; undefined: only when they are asked for. */
  readonly everySeconds: number | undefined;
  reload(): void;
}

type Query = Readonly<Record<string, string | number | undefined>>;

interface State<T> {
  readonly key: string;
  readonly data?: T;
  readonly failure?: Failure;
  readonly at?: number;
}

/**
 * What a GET returns. Data of the same request stay while it is repeated, so nothing blinks; `everySeconds` repeats it while
 * the tab is visible and the operator has not paused. A repetition takes what another viewer has got in that time.
 */
export function useGet<T>(path: string | undefined, query: Query = {}, everySeconds?: number): Loaded<T> {
  const key = `${path}?${JSON.stringify(query)}`;
  const [state, setState] = useState<State<T>>({ key });
  // A new object for every request; with the key if it is a repetition.
  const [round, setRound] = useState<{ readonly repeats?: string }>({});
  const current = useRef(key);
  current.current = key;

  useEffect(() => {
    if (path === undefined) return;
    const aborted = new AbortController();
    const maxAgeSeconds = round.repeats === key ? (everySeconds ?? 0) : 0;
    fetchShared<T>(path, query, maxAgeSeconds, aborted.signal).then(
      ({ data, ageSeconds }) =>
        current.current === key && setState({ key, data, at: Date.now() - ageSeconds * 1_000 }),
      (failure: Failure) => {
        if (aborted.signal.aborted) return;
        setState((last) => ({ ...(last.key === key ? last : { key }), failure }));
      },
    );
    return () => aborted.abort();
  }, [key, round]);

  const reload = useCallback(() => setRound({}), []);
  const repeat = useCallback(() => setRound({ repeats: current.current }), []);
  useEvery(everySeconds, repeat, reload);
  useRefresh(reload);

  const own = state.key === key ? state : { key };
  const isLoading = own.data === undefined && own.failure === undefined;
  return { data: own.data, failure: own.failure, isLoading, at: own.at, everySeconds, reload };
}

function useEvery(seconds: number | undefined, repeat: () => void, reload: () => void): void {
  useEffect(() => {
    if (seconds === undefined) return;
    const ifSeen = (run: () => void) => () => {
      if (!document.hidden && !paused.value) run();
    };
    const timer = setInterval(ifSeen(repeat), seconds * 1_000);
    // What was read before the tab was hidden may be hours old.
    const onSeenAgain = ifSeen(reload);
    document.addEventListener('visibilitychange', onSeenAgain);
    return () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', onSeenAgain);
    };
  }, [seconds, repeat, reload]);
}

/** The key `r`, or a finished action: everything on the screen is read again. */
export function refresh(): void {
  dispatchEvent(new Event('sluice:refresh'));
}

function useRefresh(reload: () => void): void {
  useEffect(() => {
    addEventListener('sluice:refresh', reload);
    return () => removeEventListener('sluice:refresh', reload);
  }, [reload]);
}

export interface Pages<T> extends Omit<Loaded<Page<T>>, 'data'> {
  readonly items: readonly T[];
  readonly hasMore: boolean;
  readonly isLoadingMore: boolean;
  more(): void;
}

/** More rows than this are not put on one page: a filter finds them better. */
const MAX_ROWS = 1_000;

/**
 * A list page by page. Repeating it by itself ends with the second page: rows that one reads must not move. What is read again on
 * purpose starts at the first page: a row may have moved from one page to the other.
 */
export function usePages<T>(path: string, query: Query = {}, everySeconds?: number): Pages<T> {
  const key = `${path}?${JSON.stringify(query)}`;
  const [rest, setRest] = useState<{ key: string; pages: readonly Page<T>[]; failure?: Failure }>({
    key,
    pages: [],
  });
  const [isLoadingMore, setLoadingMore] = useState(false);
  const pages = rest.key === key ? rest.pages : [];
  const first = useGet<Page<T>>(path, { limit: 100, ...query }, pages.length ? undefined : everySeconds);
  const items = [...(first.data?.items ?? []), ...pages.flatMap((page) => page.items)];
  const next = pages.at(-1)?.next ?? (pages.length ? null : (first.data?.next ?? null));

  const forget = useCallback(() => setRest({ key, pages: [] }), [key]);
  useRefresh(forget);

  const more = () => {
    if (!next || isLoadingMore) return;
    setLoadingMore(true);
    get<Page<T>>(path, { limit: 100, ...query, cursor: next })
      .then(
        (page) => setRest({ key, pages: [...pages, page] }),
        (failure: Failure) => setRest({ key, pages, failure }),
      )
      .finally(() => setLoadingMore(false));
  };
  return {
    items,
    failure: first.failure ?? (rest.key === key ? rest.failure : undefined),
    isLoading: first.isLoading,
    at: first.at,
    everySeconds,
    hasMore: next !== null && items.length < MAX_ROWS,
    isLoadingMore,
    more,
    reload: () => {
      forget();
      first.reload();
    },
  };
}
