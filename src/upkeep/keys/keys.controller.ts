import { Controller, Get, Param, Req } from '@nestjs/common';
import { ApiOperation, ApiParam, ApiResponse, ApiTags } from '@nestjs/swagger';
import type { FastifyRequest } from 'fastify';
import { Allow } from '../../http/access.ts';
import { Problem } from '../../http/problems.ts';
import { queryOf } from '../../http/query.ts';
import { Repeatable } from '../../http/repeats.ts';
import { HoldsStore } from '../../inbox/holds/holds-store.ts';
import { messageView } from '../../inbox/message-view.ts';
import { MessagesStore, NO_FILTER } from '../../inbox/messages-store.ts';
import { deadLetterView } from '../dead-letters/dead-letter-view.ts';
import { DeadLettersStore } from '../dead-letters/dead-letters-store.ts';
import { KEY } from './keys.openapi.ts';
import { KeysStore } from './keys-store.ts';

const MAX_KEY = 256;
const MAX_DEAD = 10;
const MAX_RECENT = 20;

@ApiTags('holds')
@Controller('v1/keys/:key')
export class KeysController {
  constructor(
    private readonly keys: KeysStore,
    private readonly holds: HoldsStore,
    private readonly messages: MessagesStore,
    private readonly deadLetters: DeadLettersStore,
  ) {}

  @Get()
  @Allow('read')
  @Repeatable()
  @ApiOperation({ summary: 'A key: its hold, its dead letters, what waits, and its newest messages.' })
  @ApiParam({ name: 'key', description: 'The key of messages.' })
  @ApiResponse({ status: 200, schema: KEY, description: 'Also for a key that no message has.' })
  async one(@Param('key') key: string, @Req() request: FastifyRequest) {
    queryOf(request.query, []);
    if (key.includes('\u0000') || key.length > MAX_KEY)
      throw new Problem('not-found', 'No message can have this key.');
    const [[hold], dead, count, waiting, { rows }] = await Promise.all([
      this.holds.list({ key }, undefined, 1),
      this.deadLetters.list({ key }, undefined, MAX_DEAD),
      this.deadLetters.count({ key }),
      this.keys.waiting(key),
      this.messages.list({ ...NO_FILTER, key }, undefined, MAX_RECENT),
    ]);
    return {
      key,
      hold: hold
        ? { key, kind: hold.kind, reason: hold.reason, until: hold.until, since: hold.set_at }
        : null,
      deadLetters: { count, items: dead.map(deadLetterView) },
      waiting,
      recent: rows.map(messageView),
    };
  }
}
