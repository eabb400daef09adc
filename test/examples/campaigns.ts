import { Controller, Get, Module, Param, Query } from '@nestjs/common';
import { ApiOkResponse, ApiProperty } from '@nestjs/swagger';
import { IsObject, IsOptional, IsString } from 'class-validator';
import {
  Column,
  DataSource,
  Entity,
  type MigrationInterface,
  PrimaryColumn,
  type QueryRunner,
} from 'typeorm';
import {
  Allow,
  ApiPending,
  Defer,
  Denormalizer,
  Fresh,
  flagOf,
  type Message,
  Pending,
  Problem,
  queryOf,
  type ReadModel,
  type ReadModelTransaction,
} from '../../src/contract/index.ts';

/*
 * The campaign queue of the source document, "Очередь обработки cpm": many writers, and per campaign one reader that
 * drops what a later message replaces, puts the rest into an order that makes sense, and calls outside as seldom as
 * possible.
 */

const name = (what: string) => `urn:cpm:campaigns/${what}`;

export const EDITED = name('edited');
export const BANNER_UPDATED = name('banner-updated');
export const CREATED = name('created');
export const CREATION_FINISHED = name('creation-finished');
export const STARTED = name('started');
export const STOPPED = name('stopped');
export const ARCHIVED = name('archived');

/** What the denormalizer sends: external calls, made by the listeners of these messages. */
export const CREATE_TASK = 'urn:cpm:tasks/create-campaign';
export const DIRECT_UPDATE = 'urn:cpm:direct/update';
export const FEEDS_RESTART = 'urn:cpm:feeds-admin/restart';

class CampaignTask {
  @IsString() campaignId: string;

  @IsOptional()
  @IsObject()
  parameters?: Record<string, unknown>;

  @IsOptional()
  @IsString()
  banner?: string;
}

const STATUSES = ['new', 'in_creation_process', 'ready', 'running', 'stopped', 'archived'] as const;
type Status = (typeof STATUSES)[number];

@Entity('campaign')
export class Campaign {
  @ApiProperty()
  @PrimaryColumn('text')
  id: string;

  @ApiProperty({ enum: STATUSES })
  @Column('text')
  status: Status;

  @ApiProperty({ type: 'object', additionalProperties: true })
  @Column('jsonb')
  parameters: Record<string, unknown>;

  @ApiProperty()
  @Column('text')
  banner: string;
}

const STATUS_AFTER: Readonly<Record<string, Status>> = {
  [CREATED]: 'in_creation_process',
  [CREATION_FINISHED]: 'ready',
  [STARTED]: 'running',
  [STOPPED]: 'stopped',
  [ARCHIVED]: 'archived',
};

@Denormalizer({
  types: [EDITED, BANNER_UPDATED, CREATED, CREATION_FINISHED, STARTED, STOPPED, ARCHIVED],
  payload: CampaignTask,
  // C2: the last of each kind, and of start and stop together.
  coalesce: {
    [EDITED]: 'campaign-edit',
    [BANNER_UPDATED]: 'campaign-banner',
    [CREATED]: 'campaign-create',
    [STARTED]: 'campaign-run',
    [STOPPED]: 'campaign-run',
    [ARCHIVED]: 'campaign-archive',
  },
  // C3: edits, create, start or stop, archive. The end of the creation goes before what waits for it.
  rank: {
    [CREATION_FINISHED]: -1,
    [EDITED]: 0,
    [BANNER_UPDATED]: 0,
    [CREATED]: 1,
    [STARTED]: 2,
    [STOPPED]: 2,
    [ARCHIVED]: 3,
  },
})
export class CampaignDenormalizer {
  async apply(message: Message<CampaignTask>, tx: ReadModelTransaction): Promise<void> {
    const campaign = await this.campaign(message.payload.campaignId, tx);
    if (message.type === EDITED || message.type === BANNER_UPDATED) await this.edit(campaign, message, tx);
    else await this.move(campaign, message, tx);
    const handled = 'INSERT INTO campaign_handling (campaign_id, message_id, type) VALUES ($1, $2, $3)';
    await tx.query(handled, [campaign.id, message.id, message.type]);
  }

  /** Of one key only: no other message writes this row. */
  private async campaign(id: string, tx: ReadModelTransaction): Promise<Campaign> {
    const known = await tx.manager.findOneBy(Campaign, { id });
    return known ?? tx.manager.create(Campaign, { id, status: 'new', parameters: {}, banner: '' });
  }

  /** A running campaign has to be stopped and started again at the feeds. */
  private async edit(
    campaign: Campaign,
    message: Message<CampaignTask>,
    tx: ReadModelTransaction,
  ): Promise<void> {
    const { parameters = campaign.parameters, banner = campaign.banner } = message.payload;
    await tx.manager.save(Campaign, { ...campaign, parameters, banner });
    await tx.send({ type: DIRECT_UPDATE, key: campaign.id, payload: { parameters, banner } });
    if (campaign.status === 'running') await tx.send({ type: FEEDS_RESTART, key: campaign.id, payload: {} });
  }

  /** C5: what cannot be done while the campaign is being created is not processed; it stays. */
  private async move(campaign: Campaign, { type }: Message, tx: ReadModelTransaction): Promise<void> {
    const inCreation = campaign.status === 'in_creation_process';
    if (inCreation && type !== CREATION_FINISHED) throw new Defer('100ms', 'the campaign is being created');
    await tx.manager.save(Campaign, { ...campaign, status: STATUS_AFTER[type]! });
    if (type === CREATED)
      await tx.send({ type: CREATE_TASK, key: campaign.id, payload: { campaignId: campaign.id } });
  }
}

/** C7: `?pending=true` is "отдавала на фронт последнюю версию кампании, если такая там будет". */
@Controller('v1/campaigns')
class CampaignsController {
  constructor(
    private readonly dataSource: DataSource,
    private readonly pending: Pending,
  ) {}

  @Get(':id')
  @Allow('read')
  @Fresh()
  @ApiPending()
  @ApiOkResponse({ description: 'The campaign.', type: Campaign })
  async one(@Param('id') id: string, @Query() query: unknown) {
    const pending = flagOf('pending', queryOf(query, ['pending']).pending);
    const campaign = pending
      ? await this.pending.read(id, (manager) => manager.findOneBy(Campaign, { id }))
      : await this.dataSource.manager.findOneBy(Campaign, { id });
    if (!campaign) throw new Problem('not-found', 'No campaign has this id.');
    return campaign;
  }
}

class Campaigns1763251300102 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(
      'CREATE TABLE campaign (id text PRIMARY KEY, status text NOT NULL, parameters jsonb NOT NULL, banner text NOT NULL)',
    );
    await runner.query(`
      CREATE TABLE campaign_handling (
        handling    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        transaction text   NOT NULL DEFAULT pg_current_xact_id()::text,
        campaign_id text   NOT NULL,
        message_id  text   NOT NULL,
        type        text   NOT NULL
      )`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP TABLE campaign_handling, campaign');
  }
}

@Module({ providers: [CampaignDenormalizer], controllers: [CampaignsController] })
class CampaignsModule {}

export const campaigns: ReadModel = {
  name: 'campaigns',
  module: CampaignsModule,
  entities: [Campaign],
  migrations: [Campaigns1763251300102],
};
