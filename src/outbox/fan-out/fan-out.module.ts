import { Module } from '@nestjs/common';
import { OutboxStore } from '../outbox-store.ts';
import { FanOut } from './fan-out.ts';
import { MessageContents } from './message-contents.ts';

/** All that the inbox knows of the outbox; the outbox sends at once what was just fanned out here. */
@Module({
  providers: [FanOut, MessageContents, OutboxStore],
  exports: [FanOut, MessageContents, OutboxStore],
})
export class FanOutModule {}
