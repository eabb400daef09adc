import { Module } from '@nestjs/common';
import { Contents } from './contents.ts';
import { FanOut } from './fan-out.ts';
import { OutboxStore } from './outbox-store.ts';

/** All that the inbox knows of the outbox; the outbox sends at once what was just fanned out here. */
@Module({ providers: [FanOut, Contents, OutboxStore], exports: [FanOut, Contents, OutboxStore] })
export class FanOutModule {}
