import type { ComponentType } from 'preact';
import { ActivityScreen } from './screens/activity/activity.tsx';
import { DeadLetters } from './screens/dead-letters/dead-letters.tsx';
import { Holds } from './screens/holds/holds.tsx';
import { KeyScreen } from './screens/holds/key.tsx';
import { ListenerScreen } from './screens/listeners/listener.tsx';
import { Listeners } from './screens/listeners/listeners.tsx';
import { DeliveryScreen } from './screens/messages/delivery.tsx';
import { Find } from './screens/messages/find.tsx';
import { MessageScreen } from './screens/messages/message.tsx';
import { Messages } from './screens/messages/messages.tsx';
import { ReadModelScreen } from './screens/read-models/read-model.tsx';
import { ReadModels } from './screens/read-models/read-models.tsx';
import { Schedules } from './screens/schedules/schedules.tsx';
import { System } from './screens/system/system.tsx';
import { GroupScreen } from './screens/topics/group.tsx';
import { TopicScreen } from './screens/topics/topic.tsx';
import { Topics } from './screens/topics/topics.tsx';

/** Every screen but the first one, in one file: it is fetched while the operator reads the first. */
export const OTHER_SCREENS: Readonly<Record<string, ComponentType>> = {
  messages: Messages,
  message: MessageScreen,
  delivery: DeliveryScreen,
  find: Find,
  listeners: Listeners,
  listener: ListenerScreen,
  topics: Topics,
  topic: TopicScreen,
  group: GroupScreen,
  'dead-letters': DeadLetters,
  holds: Holds,
  key: KeyScreen,
  schedules: Schedules,
  'read-models': ReadModels,
  'read-model': ReadModelScreen,
  activity: ActivityScreen,
  system: System,
};
