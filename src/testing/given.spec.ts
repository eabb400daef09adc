import { describe, expect, it } from '@jest/globals';
import { Module } from '@nestjs/common';
import { IsInt } from 'class-validator';
import { Column, Entity, type MigrationInterface, PrimaryColumn, type QueryRunner } from 'typeorm';
import { Denormalizer } from '../contract/denormalizer.ts';
import type { Message } from '../contract/message.ts';
import { Defer, Refuse } from '../contract/outcomes.ts';
import type { ReadModel } from '../contract/read-model.ts';
import type { ReadModelTransaction } from '../contract/read-model-transaction.ts';
import { readModelTest } from './read-model-test.ts';
import { Scenario } from './scenario.ts';
import { messageOf } from './test-message.ts';

@Entity('account')
class Account {
  @PrimaryColumn('text') id: string;
  @Column('integer') balance: number;
}

class Accounts1763251300100 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(
      'CREATE TABLE account (id text PRIMARY KEY, balance integer NOT NULL CHECK (balance >= 0))',
    );
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP TABLE account');
  }
}

@Module({})
class AccountsModule {}

const accounts: ReadModel = {
  name: 'accounts',
  module: AccountsModule,
  entities: [Account],
  migrations: [Accounts1763251300100],
};

class Booked {
  @IsInt() amount: number;
}

const ADD = `INSERT INTO account VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET balance = account.balance + $2`;

@Denormalizer({ types: ['booked'], payload: Booked })
class Balance {
  async apply({ key, payload }: Message<Booked>, tx: ReadModelTransaction): Promise<void> {
    if (payload.amount === 0) throw new Refuse('nothing booked');
    if (payload.amount > 1_000) throw new Defer('30s', 'large amounts are looked at first');
    await tx.query(ADD, [key, payload.amount]);
    if (payload.amount > 100) await tx.send({ type: 'large', key, payload: { amount: payload.amount } });
  }
}

@Denormalizer({ types: ['booked'], payload: Booked, name: 'Naive' })
class NaiveBatch {
  /** Cannot change a row twice in one statement. */
  async applyBatch(messages: readonly Message<Booked>[], tx: ReadModelTransaction): Promise<void> {
    const rows = messages.map(({ key, payload }) => ({ key, amount: payload.amount }));
    await tx.query(
      `INSERT INTO account SELECT key, amount FROM json_to_recordset($1) AS booked(key text, amount integer)
       ON CONFLICT (id) DO UPDATE SET balance = account.balance + EXCLUDED.balance`,
      [JSON.stringify(rows)],
    );
  }
}

@Denormalizer({ types: ['booked'] })
class Converted {
  constructor(private readonly rate: () => Promise<number>) {}

  prepare(): Promise<number> {
    return this.rate();
  }

  async apply({ key, payload }: Message<Booked>, tx: ReadModelTransaction, rate: number): Promise<void> {
    await tx.query(ADD, [key, payload.amount * rate]);
  }
}

@Denormalizer({ types: ['set', 'booked'], coalesce: { set: 'account-set' }, rank: { set: -1 } })
class LastSet {
  async apply({ key, type, payload }: Message<Booked>, tx: ReadModelTransaction): Promise<void> {
    const set = 'INSERT INTO account VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET balance = $2';
    await tx.query(type === 'set' ? set : ADD, [key, payload.amount]);
  }
}

const { given } = readModelTest(accounts);
const booked = messageOf('booked', { id: 'a', amount: 1 }, 'id');
const set = messageOf('set', { id: 'a', amount: 1 }, 'id');

/** The message that an author reads. */
const faultOf = (scenario: PromiseLike<unknown>): Promise<string> =>
  Promise.resolve(scenario).then(
    () => 'nothing was wrong',
    (error: Error) => error.message,
  );

describe('given, when, then', () => {
  it('applies given and new messages, each N times, and rolls back', async () => {
    for (let again = 0; again < 2; again++) {
      await given(Balance, [booked({ amount: 5 }), booked({ id: 'b' })])
        .when(booked(), { times: 3 })
        .then(Account, [{ id: 'a', balance: 8 }, { balance: 1 }]);
    }
  });

  it('keeps the order of messages', async () => {
    await given(LastSet, [])
      .when([booked({ amount: 7 }), set({ amount: 1 }), set({ amount: 2 })])
      .then(Account, [{ id: 'a', balance: 9 }])
      .andSuperseded(['set']);
  });

  it('reports the difference', async () => {
    const wrong = await faultOf(
      given(Balance, [])
        .when(booked())
        .then(Account, [{ id: 'a', balance: 2 }]),
    );
    expect(wrong).toContain('messages applied one by one');
    expect(wrong).toMatch(/\+ +balance: 1/);
    expect(wrong).toMatch(/- +balance: 2/);
    expect(await faultOf(given(Balance, []).when(booked()).then(Account, []))).toContain(`id: 'a'`);
    expect(
      await faultOf(
        given(Balance, [booked()])
          .when([])
          .then(Account, [{ id: 'a' }]),
      ),
    ).toBe('nothing was wrong');
  });

  it('finds errors that occur only when messages are applied in one batch', async () => {
    const scenario = given(NaiveBatch, [])
      .when(booked(), { times: 2 })
      .then(Account, [{ balance: 2 }]);
    expect(await faultOf(scenario)).toMatch(
      /applied in one batch: each message can be applied alone, but not in one batch: .*cannot affect row a second time/,
    );
  });

  it('reports what was refused, deferred or failed', async () => {
    await given(Balance, [])
      .when(booked({ amount: 0 }))
      .thenRefused(/nothing booked/)
      .and(Account, []);
    await given(Balance, [])
      .when(booked({ amount: 'x' }))
      .thenRefused(/not a Booked: \/amount must be an integer/);
    await given(Balance, [])
      .when(booked({ amount: 2_000 }))
      .thenDeferred('30s', /looked at/)
      .andSent([]);
    await given(Balance, [])
      .when(booked({ amount: -1 }))
      .thenFails(/account_balance_check/);

    expect(await faultOf(given(Balance, []).when(booked()).thenRefused(/x/))).toContain(
      'everything was applied',
    );
    expect(
      await faultOf(
        given(Balance, [])
          .when(booked({ amount: 0 }))
          .then(Account, []),
      ),
    ).toContain('booked was not applied (dead): Refuse: nothing booked');
    expect(
      await faultOf(
        given(Balance, [])
          .when(booked({ amount: 2_000 }))
          .thenDeferred('1s'),
      ),
    ).toMatch(/30s/);
    expect(
      await faultOf(
        given(Balance, [booked({ amount: 0 })])
          .when([])
          .then(Account, []),
      ),
    ).toContain('given booked: Refuse: nothing booked');
  });

  it('does not apply messages behind a failed one of their key, and applies all others', async () => {
    await given(Balance, [])
      .when([booked(), booked({ amount: 0 }), booked({ amount: 9 }), booked({ id: 'b' })])
      .thenRefused(/nothing/)
      .and(Account, [
        { id: 'a', balance: 1 },
        { id: 'b', balance: 1 },
      ]);
  });

  it('reports the messages sent', async () => {
    await given(Balance, [booked({ amount: 200 })])
      .when([booked(), booked({ amount: 300 })])
      .thenSent([{ type: 'large', key: 'a', payload: { amount: 300 } }]);
  });

  it('runs prepare, with an instance that the test created', async () => {
    const calls: number[] = [];
    const rate = async () => calls.push(1);
    await given(new Converted(rate), [])
      .when(booked())
      .then(Account, [{ id: 'a' }]);
    expect(calls).toHaveLength(2);
    const down = new Converted(() => Promise.reject(new Error('the bank is closed')));
    await given(down, [])
      .when(booked())
      .thenFails(/the bank is closed/);
    expect(() => given(Converted, [])).toThrow(
      'the constructor of Converted has parameters: pass an instance',
    );
  });

  it('fails when an expectation is missing', async () => {
    const unawaited = new Set<Scenario>();
    const scenario = new Scenario(
      () => ({ runner: undefined as never, rebuild: undefined as never, unawaited }),
      Balance,
      [],
    );
    expect([...unawaited]).toEqual([scenario]);
    expect(scenario.place).toContain('given.spec.ts');
    const outcomes = scenario.when(booked()) as unknown as PromiseLike<unknown>;
    await expect((async () => await outcomes)()).rejects.toThrow('an expectation is missing');
  });
});
