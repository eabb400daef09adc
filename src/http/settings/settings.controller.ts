import { Controller, Get, Inject, Req } from '@nestjs/common';
import { ApiOperation, ApiResponse, ApiTags } from '@nestjs/swagger';
import type { FastifyRequest } from 'fastify';
import type { Setting } from '../../config/setting.ts';
import { SETTINGS } from '../../config/settings.schema.ts';
import { givenValues, SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import { Allow } from '../access.ts';
import { queryOf } from '../query.ts';
import { TEXT } from '../schema.ts';

const LISTED = {
  type: 'object',
  required: ['items'],
  properties: {
    items: {
      type: 'array',
      items: {
        title: 'Setting',
        type: 'object',
        required: ['name', 'value', 'default', 'isSet', 'isSecret', 'description'],
        properties: {
          name: TEXT,
          value: { ...TEXT, nullable: true, description: 'null if it is not set, or secret.' },
          default: { ...TEXT, nullable: true },
          isSet: { type: 'boolean' },
          isSecret: { type: 'boolean' },
          description: TEXT,
        },
      },
    },
  },
};

@ApiTags('operations')
@Controller('v1/settings')
export class SettingsController {
  constructor(@Inject(SETTINGS_TOKEN) private readonly settings: Settings) {}

  @Get()
  @Allow('admin')
  @ApiOperation({
    summary: 'The settings of the replica that responds, as they were given; secrets are never shown.',
  })
  @ApiResponse({ status: 200, description: 'All settings.', schema: LISTED })
  list(@Req() request: FastifyRequest) {
    queryOf(request.query, []);
    const given = givenValues(this.settings);
    return {
      items: Object.entries<Setting<unknown>>(SETTINGS).map(([name, setting]) => ({
        name,
        value: setting.secret ? null : (given[name] ?? null),
        default: setting.default ?? null,
        isSet: given[name] !== undefined,
        isSecret: setting.secret,
        description: setting.about,
      })),
    };
  }
}
