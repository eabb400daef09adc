import { Controller, Get, Module, Param, Query } from '@nestjs/common';
import { ApiOkResponse, ApiProperty, ApiTags } from '@nestjs/swagger';
import { IsInt, IsString, Length, Max, Min } from 'class-validator';
import {
  Allow,
  Denormalizer,
  Etag,
  Fresh,
  type Message,
  Problem,
  queryOf,
  type ReadModel,
  type ReadModelTransaction,
  Refuse,
} from 'sluice/contract';
import {
  Column,
  DataSource,
  Entity,
  type MigrationInterface,
  PrimaryColumn,
  type QueryRunner,
} from 'typeorm';

// What comes in. The key of these messages is the item.

export const ITEM_RECEIVED = 'urn:shop:events/item-received';
export const ITEM_SOLD = 'urn:shop:events/item-sold';

export class ItemMoved {
  @IsString()
  @Length(1, 256)
  itemId: string;

  @IsInt()
  @Min(1)
  @Max(1_000_000)
  pieces: number;
}

// What is read: a row is also the response of the API.

@Entity('item')
export class Item {
  @ApiProperty()
  @PrimaryColumn('text')
  id: string;

  @ApiProperty()
  @Column('integer')
  pieces: number;

  @ApiProperty()
  @Column('timestamptz', { name: 'changed_at' })
  changedAt: Date;
}

class Stock1800000000001 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE item (
        id         text           PRIMARY KEY,
        pieces     integer        NOT NULL,
        changed_at timestamptz(3) NOT NULL
      )`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP TABLE item');
  }
}

// How a message changes a row, in the transaction that also finishes the message.

const ADD = `
  INSERT INTO item (id, pieces, changed_at) VALUES ($1, $2, $3)
  ON CONFLICT (id) DO UPDATE SET pieces = item.pieces + $2, changed_at = $3`;
const TAKE =
  'UPDATE item SET pieces = pieces - $2, changed_at = $3 WHERE id = $1 AND pieces >= $2 RETURNING id';

@Denormalizer({ types: [ITEM_RECEIVED, ITEM_SOLD], payload: ItemMoved })
export class ItemDenormalizer {
  async apply(message: Message<ItemMoved>, tx: ReadModelTransaction): Promise<void> {
    const { itemId, pieces } = message.payload;
    // Never the clock: a rebuild must come to the same rows.
    const moved = [itemId, pieces, message.occurredAt ?? message.receivedAt];
    if (message.type === ITEM_RECEIVED) await tx.query(ADD, moved);
    else if ((await tx.query(TAKE, moved)).length === 0) throw new Refuse('there are not that many');
  }
}

// How it is queried.

@ApiTags('stock')
@Controller('v1/items')
class ItemsController {
  constructor(private readonly dataSource: DataSource) {}

  @Get(':id')
  @Allow('read')
  @Fresh()
  @Etag()
  @ApiOkResponse({ type: Item })
  async one(@Param('id') id: string, @Query() query: unknown): Promise<Item> {
    queryOf(query, []);
    const item = await this.dataSource.manager.findOneBy(Item, { id });
    if (!item) throw new Problem('not-found', 'No item has this id.');
    return item;
  }
}

@Module({ providers: [ItemDenormalizer], controllers: [ItemsController] })
class StockModule {}

export const stock: ReadModel = {
  name: 'stock',
  module: StockModule,
  entities: [Item],
  migrations: [Stock1800000000001],
};
