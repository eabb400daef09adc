import { HELD_KEY } from './console-data.ts';

/** A path with its query, and how often it is requested again. */
export type Repeated = readonly [path: string, everySeconds: number];

/**
 * What each screen of the console repeats while it is open. The tests of the console compare it with what the console requests;
 * others imitate viewers with it.
 */
export const REPEATED: Readonly<Record<string, readonly Repeated[]>> = {
  '#/now': [['/v1/activity?range=15m&step=30s', 30]],
  '#/message?id=order-3': [
    ['/v1/messages/order-3?payload=none', 5],
    ['/v1/messages/order-3/why', 5],
  ],
  '#/listeners': [['/v1/listeners?limit=100', 10]],
  '#/listener?name=billing': [
    ['/v1/listeners/billing', 5],
    ['/v1/activity?range=15m&step=30s', 30],
  ],
  '#/topics': [
    ['/v1/topics?limit=100', 10],
    ['/v1/groups?limit=100', 5],
  ],
  '#/topic?name=orders': [['/v1/topics/orders', 5]],
  '#/group?name=analytics': [['/v1/groups/analytics', 2]],
  '#/dead-letters': [['/v1/dead-letters/groups', 5]],
  '#/holds': [['/v1/holds?limit=100', 5]],
  [`#/key?key=${HELD_KEY}`]: [[`/v1/keys/${HELD_KEY}`, 5]],
  '#/schedules': [['/v1/schedules?limit=100', 10]],
  '#/read-models': [['/v1/read-models', 2]],
  '#/read-model?name=recruitment': [['/v1/read-models/recruitment', 2]],
  '#/activity': [
    ['/v1/dead-letters/rulings?limit=20', 2],
    ['/v1/replays?limit=20', 2],
    ['/v1/read-models', 2],
  ],
  '#/system': [['/v1/replicas', 5]],
};
