import { now } from '../clock.ts';
import { duration } from '../format.ts';
import type { Loaded } from '../load.ts';

/** How old data are that should be newer: they missed more than one repetition, or are shared by many. */
export function AsOf({ of: { at, everySeconds } }: { of: Pick<Loaded<unknown>, 'at' | 'everySeconds'> }) {
  // Read for its tick alone: the data came by the clock of this browser.
  void now.value;
  if (at === undefined || everySeconds === undefined) return null;
  const seconds = Math.round((Date.now() - at) / 1_000);
  if (seconds <= 2 * everySeconds) return null;
  return <p class="as-of">as of {duration(seconds)} ago</p>;
}
