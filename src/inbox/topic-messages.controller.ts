import { Controller, Param, Post, Req, Res } from '@nestjs/common';
import { ApiBody, ApiOperation, ApiResponse, ApiTags } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Allow } from '../http/access.ts';
import { ApiTopic } from '../topics/topics.openapi.ts';
import { Topics } from '../topics/topics.ts';
import { noTopic } from '../topics/topics-store.ts';
import {
  ApiPosted,
  ApiPostedBatch,
  bodyOf,
  TOPIC_MESSAGE,
  TOPIC_MESSAGES_BATCH,
} from './post-messages.openapi.ts';
import { PostMessages } from './post-messages.ts';
import { readBatch, readPost } from './read-request.ts';

@ApiTags('topics')
@ApiTopic
@Controller('v1/topics/:topic/messages')
export class TopicMessagesController {
  constructor(
    private readonly topics: Topics,
    private readonly posts: PostMessages,
  ) {}

  @Post()
  @Allow('produce', 'raw')
  @ApiOperation({
    summary: 'Post a message to a topic: as POST /v1/messages, with the topic as the default type.',
    requestBody: bodyOf(TOPIC_MESSAGE),
  })
  @ApiPosted()
  @ApiResponse({ status: 422, description: 'Not valid, or of a type that the topic does not take.' })
  async post(
    @Param('topic') topic: string,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    await this.posts.reply(request, reply, readPost, await this.find(topic));
  }

  @Post('batch')
  @Allow('produce', 'raw-batch')
  @ApiOperation({ summary: 'Post up to 1000 messages to a topic, all or nothing.' })
  @ApiBody({ schema: TOPIC_MESSAGES_BATCH })
  @ApiPostedBatch()
  @ApiResponse({ status: 422, description: 'Not valid, or of a type that the topic does not take.' })
  async postBatch(
    @Param('topic') topic: string,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    await this.posts.reply(request, reply, readBatch, await this.find(topic));
  }

  /** It may have been created a moment ago by another replica. */
  private async find(name: string) {
    if (!this.topics.named(name)) await this.topics.refresh();
    const topic = this.topics.named(name);
    if (!topic) throw noTopic(name);
    return {
      topic,
      takes: (type: string) => this.topics.of(type).some(({ number }) => number === topic.number),
    };
  }
}
