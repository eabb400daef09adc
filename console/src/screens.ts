import type { ComponentType } from 'preact';
import { Now } from './screens/now/now.tsx';

export interface Screen {
  readonly title: string;
  /** With `g`. Screens without one are reached from others. */
  readonly key?: string;
  /** The entry of the menu that is marked while this screen is shown. */
  readonly under?: string;
}

/** Without a prototype: a name comes from the URL, and `__proto__` is no screen. */
export const SCREENS: Readonly<Record<string, Screen>> = Object.assign(Object.create(null), {
  now: { title: 'Now', key: 'n' },
  messages: { title: 'Messages', key: 'm' },
  message: { title: 'Message', under: 'messages' },
  delivery: { title: 'Delivery', under: 'messages' },
  find: { title: 'Find', under: 'messages' },
  listeners: { title: 'Listeners', key: 'l' },
  listener: { title: 'Listener', under: 'listeners' },
  topics: { title: 'Topics and groups', key: 't' },
  topic: { title: 'Topic', under: 'topics' },
  group: { title: 'Group', under: 'topics' },
  'dead-letters': { title: 'Dead letters', key: 'd' },
  holds: { title: 'Holds', key: 'h' },
  key: { title: 'Key', under: 'holds' },
  schedules: { title: 'Schedules', key: 's' },
  'read-models': { title: 'Read models', key: 'r' },
  'read-model': { title: 'Read model', under: 'read-models' },
  activity: { title: 'Activity', key: 'a' },
  system: { title: 'System', key: 'y' },
  guide: { title: 'Guide' },
} satisfies Record<string, Screen>);

export const MENU = Object.entries(SCREENS).filter(([, { key }]) => key !== undefined);

/** The first view is in the first file; the others and the guide are fetched when they are opened. */
export async function componentOf(screen: string): Promise<ComponentType> {
  if (screen === 'now') return Now;
  if (screen === 'guide') return (await import('./screens/guide/guide.tsx')).Guide;
  return (await import('./other-screens.ts')).OTHER_SCREENS[screen]!;
}
