import { Injectable, Module } from '@nestjs/common';
import { Denormalizer } from '../../src/contract/denormalizer.ts';
import type { Message } from '../../src/contract/message.ts';
import type { ReadModel } from '../../src/contract/read-model.ts';

/** How a message ends the process that applies it; `kill` is also what the system does when memory runs out. */
const CRASHES = {
  exit: () => process.exit(7),
  kill: () => process.kill(process.pid, 'SIGKILL'),
  loop: () => {
    for (;;);
  },
};

export type CrashKind = keyof typeof CRASHES;

@Denormalizer({ types: ['crashing'] })
@Injectable()
class Crashing {
  async apply({ payload }: Message<{ way?: CrashKind }>): Promise<void> {
    if (!payload.way) return;
    CRASHES[payload.way]();
    // SIGKILL takes effect asynchronously: never return before it does.
    await new Promise(() => undefined);
  }
}

@Module({ providers: [Crashing] })
class CrashingModule {}

export const readModel: ReadModel = {
  name: 'crashing',
  entities: [],
  migrations: [],
  module: CrashingModule,
};
