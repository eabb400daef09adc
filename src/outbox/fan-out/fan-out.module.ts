import { Module } from '@nestjs/common';
import { OutboxStore } from '../outbox-store.ts';
import { FanOut } from './fan-out.ts';
import { MessageContents } from './message-contents.ts';

/** The only part of the outbox that the inbox uses; messages that were just fanned out are sent from memory. */
@Module({
  providers: [FanOut, MessageContents, OutboxStore],
  exports: [FanOut, MessageContents, OutboxStore],
})
export class FanOutModule {}
