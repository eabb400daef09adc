import { randomUUID } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { Module, type Type } from '@nestjs/common';
import type { MigrationInterface, QueryRunner } from 'typeorm';
import { Denormalizer, type Message, type ReadModel, type ReadModelTransaction } from '../contract/index.ts';
import { messageOf, readModelTest } from './index.ts';

class Seen1763251300200 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE seen (
        id       text        PRIMARY KEY,
        what     text        NOT NULL DEFAULT '',
        at       timestamptz,
        day      date,
        added_at timestamptz DEFAULT to_timestamp(0)
      )`);
    await runner.query(
      'CREATE TABLE numbered (number integer GENERATED ALWAYS AS IDENTITY, id text PRIMARY KEY)',
    );
    await runner.query('CREATE TABLE stamped (id text PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())');
  }

  async down(): Promise<void> {}
}

@Module({})
class SeenModule {}

const model: ReadModel = { name: 'seen', module: SeenModule, entities: [], migrations: [Seen1763251300200] };
const { given } = readModelTest(model);
const added = messageOf('added', { id: 'a', text: 'x' }, 'id');
const MESSAGES = [added(), added({ id: 'b' }), added({ text: 'y' })];

type Added = Message<{ id: string; text: string }>;

/** A denormalizer that runs one statement for each message. */
function denormalizer(sql: string, of: (message: Added) => unknown[]): Type<object> {
  @Denormalizer({ types: ['added'] })
  class Tested {
    async apply(message: Added, tx: ReadModelTransaction): Promise<void> {
      await tx.query(sql, of(message));
    }
  }
  return Tested;
}

const upsert = (column: string, value = '$2') =>
  `INSERT INTO seen (id, ${column}) VALUES ($1, ${value}) ON CONFLICT (id) DO UPDATE SET ${column} = EXCLUDED.${column}`;

async function faultOf(tested: Type<object>, messages = MESSAGES): Promise<string> {
  return given(tested, messages)
    .rebuilt()
    .then(
      () => 'the same',
      (error: Error) => error.message,
    );
}

describe('given … rebuilt()', () => {
  it.each([
    [
      'without what `prepare` returned, if a rebuild does not call it',
      'skip' as const,
      /^rebuilt: seen .* "what" is "prepared" live and ""/,
    ],
    ['with it, if a rebuild calls it again', 'again' as const, /^the same$/],
  ])('applies messages %s', async (_, prepare, fault) => {
    @Denormalizer({ types: ['added'], rebuild: { prepare } })
    class Prepared {
      async prepare(): Promise<string> {
        return 'prepared';
      }
      async apply({ payload }: Added, tx: ReadModelTransaction, prepared?: string): Promise<void> {
        await tx.query(upsert('what'), [payload.id, prepared ?? '']);
      }
    }
    expect(await faultOf(Prepared)).toMatch(fault);
  });

  it('accepts what follows from the messages of a key alone, and leaves nothing behind', async () => {
    const good = denormalizer(upsert('at'), ({ payload, receivedAt }) => [payload.id, receivedAt]);
    expect([await faultOf(good), await faultOf(good)]).toEqual(['the same', 'the same']);
  });

  it.each<[what: string, column: string, sql: string, value: (message: Added) => unknown[]]>([
    ['now()', 'at', upsert('at', 'now()'), ({ key }) => [key]],
    ['now() cut to a day', 'day', upsert('day', 'now()::date'), ({ key }) => [key]],
    ['CURRENT_TIMESTAMP', 'at', upsert('at', 'CURRENT_TIMESTAMP'), ({ key }) => [key]],
    ['new Date()', 'at', upsert('at'), ({ key }) => [key, new Date()]],
    [
      'Date.now() cut to a day',
      'day',
      upsert('day'),
      ({ key }) => [key, new Date(Date.now()).toISOString().slice(0, 10)],
    ],
    [
      'a column with DEFAULT now()',
      'at',
      'INSERT INTO stamped (id) VALUES ($1) ON CONFLICT DO NOTHING',
      ({ key }) => [key],
    ],
  ])('notices %s, and says what to use instead', async (_what, column, sql, value) => {
    const fault = await faultOf(denormalizer(sql, value));
    expect(fault).toMatch(
      new RegExp(`rebuilt: \\w+ \\(id "a"\\): "${column}" is ".+" live and ".+" rebuilt; it reads the clock`),
    );
    expect(fault).toContain('message.occurredAt ?? message.receivedAt');
  });

  it.each<[what: string, sql: string, value: (message: Added) => unknown[]]>([
    ['Math.random()', upsert('what'), ({ key }) => [key, String(Math.random())]],
    ['an id of its own', upsert('what'), ({ key }) => [key, randomUUID()]],
    ['random()', upsert('what', 'random()::text'), ({ key }) => [key]],
  ])('notices %s', async (_what, sql, value) => {
    expect(await faultOf(denormalizer(sql, value))).toMatch(
      /rebuilt: seen \(id "a"\): "what" is .*something from elsewhere.*message\.id/,
    );
  });

  it('names a row that a rebuild lacks', async () => {
    const random = denormalizer(upsert('what'), () => [randomUUID(), '']);
    expect(await faultOf(random, [added()])).toMatch(
      /rebuilt: seen \(id ".+"\) exists only live; it takes something/,
    );
  });

  it('notices what depends on the order of messages with different keys', async () => {
    const sql = 'INSERT INTO numbered (id) VALUES ($1) ON CONFLICT DO NOTHING';
    const fault = await faultOf(denormalizer(sql, ({ key }) => [key]));
    expect(fault).toMatch(/numbered \(id "a"\): "number" is 1 live and \d+ rebuilt; it depends on the order/);
    const last = denormalizer(upsert('what'), ({ payload }) => ['last', payload.text]);
    expect(await faultOf(last, [added({ text: '1' }), added({ id: 'b', text: '2' })])).toContain('GREATEST');
  });

  it('notices a denormalizer that reads the table of another read model', async () => {
    const foreign = denormalizer(
      'INSERT INTO seen (id) SELECT id FROM candidate WHERE id = $1',
      ({ key }) => [key],
    );
    expect(await faultOf(foreign)).toMatch(
      /only the tables of this read model, so it must not read "candidate"/,
    );
  });
});
