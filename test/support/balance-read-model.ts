import { Controller, Get, Injectable, Module, Param, Query } from '@nestjs/common';
import { ApiOkResponse, ApiQuery } from '@nestjs/swagger';
import { DataSource, type EntityManager } from 'typeorm';
import {
  Allow,
  ApiPending,
  Denormalizer,
  Etag,
  Fresh,
  flagOf,
  type Message,
  Pending,
  Problem,
  queryOf,
  type ReadModel,
  type ReadModelTransaction,
} from '../../src/contract/index.ts';
import { oneTableReadModel } from './one-table-read-model.ts';

@Denormalizer({ types: ['balance/add'] })
@Injectable()
class Balances {
  async apply({ key }: Message, tx: ReadModelTransaction): Promise<void> {
    await tx.query(
      'INSERT INTO balance VALUES ($1, 1) ON CONFLICT (id) DO UPDATE SET amount = balance.amount + 1',
      [key],
    );
  }
}

/** `port`: of the server that was read. `?column=`: another column; `?hang=true`: never responds on a standby. */
@Controller('v1/balances')
class BalancesController {
  constructor(
    private readonly dataSource: DataSource,
    private readonly pending: Pending,
  ) {}

  @Get(':id')
  @Allow('read')
  @Fresh()
  @Etag()
  @ApiPending()
  @ApiQuery({ name: 'column', required: false, schema: { type: 'string' } })
  @ApiQuery({ name: 'hang', required: false, schema: { type: 'string' } })
  @ApiOkResponse({ schema: { type: 'object', additionalProperties: true } })
  async one(@Param('id') id: string, @Query() given: unknown) {
    const { pending, column = 'amount', hang } = queryOf(given, ['pending', 'column', 'hang']);
    const read = async (manager: EntityManager) => {
      const sleep = hang ? 'CASE WHEN pg_is_in_recovery() THEN pg_sleep(600) END' : 'NULL';
      const [row] = await manager.query(
        `SELECT ${column} AS amount, current_setting('port')::int AS port, ${sleep} AS slept FROM balance WHERE id = $1`,
        [id],
      );
      if (!row) throw new Problem('not-found', 'No balance has this id.');
      return { amount: row.amount, port: row.port };
    };
    return flagOf('pending', pending) ? this.pending.read(id, read) : read(this.dataSource.manager);
  }
}

@Module({ providers: [Balances], controllers: [BalancesController] })
class BalanceModule {}

/** Counts the messages of each key, and tells which server was read. */
export const balanceReadModel: ReadModel = {
  ...oneTableReadModel('balance (id text PRIMARY KEY, amount int NOT NULL)', []),
  module: BalanceModule,
};
