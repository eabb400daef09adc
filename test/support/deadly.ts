import { Injectable, Module } from '@nestjs/common';
import { Denormalizer } from '../../src/contract/denormalizer.ts';
import type { Message } from '../../src/contract/message.ts';
import type { ReadModel } from '../../src/contract/read-model.ts';

/** Ways to end the process one is applied in; `kill` is also what the system does when memory is used up. */
const WAYS = {
  exit: () => process.exit(7),
  kill: () => process.kill(process.pid, 'SIGKILL'),
  loop: () => {
    for (;;);
  },
};

export type Way = keyof typeof WAYS;

@Denormalizer({ types: ['deadly'] })
@Injectable()
class Deadly {
  async apply({ payload }: Message<{ way?: Way }>): Promise<void> {
    if (!payload.way) return;
    WAYS[payload.way]();
    // Killed, it takes its end from outside.
    await new Promise(() => undefined);
  }
}

@Module({ providers: [Deadly] })
class DeadlyModule {}

export const readModel: ReadModel = { entities: [], migrations: [], module: DeadlyModule };
