import type { ComponentChildren } from 'preact';

export type Tone = 'good' | 'busy' | 'warn' | 'bad' | 'quiet';

const TONES: Readonly<Record<string, Tone>> = {
  finished: 'good',
  processed: 'good',
  active: 'good',
  owned: 'good',
  live: 'good',
  processing: 'busy',
  running: 'busy',
  revived: 'busy',
  draining: 'busy',
  scheduled: 'quiet',
  pending: 'quiet',
  free: 'quiet',
  superseded: 'quiet',
  discarded: 'quiet',
  cancelled: 'quiet',
  held: 'warn',
  paused: 'warn',
  suspect: 'warn',
  expired: 'warn',
  'circuit open': 'warn',
  dead: 'bad',
  rejected: 'bad',
  disabled: 'bad',
  gone: 'bad',
};

/** A state in a word; never by colour alone. */
export function Status({ of, tone }: { of: string; tone?: Tone }) {
  return <span class={`status ${tone ?? TONES[of] ?? 'quiet'}`}>{of}</span>;
}

/** A number that matters when it is not zero. */
export function Alarming({ value, children }: { value: number; children: ComponentChildren }) {
  return <span class={value > 0 ? 'alarming' : 'muted'}>{children}</span>;
}
