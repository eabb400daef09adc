import { deepStrictEqual } from 'node:assert/strict';
import type { Type } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { formatDuration } from '../config/duration.ts';
import type { DeclaredDenormalizer } from '../inbox/denormalizers/declared-denormalizer.ts';
import { declared } from '../inbox/denormalizers/denormalizers.ts';
import type { Failure } from '../inbox/processing/failures.ts';
import type { RebuildComparison } from './rebuilt.ts';
import { type ApplyMode, type Result, rowOf, type ScenarioRunner } from './scenario-runner.ts';
import type { TestMessage } from './test-message.ts';

/** A denormalizer's class, or an instance if its constructor has parameters. */
export type Tested = Type<object> | object;

/** Shared by the scenarios of a spec; `unawaited` finds those that were never run. */
export interface ScenarioContext {
  readonly runner: ScenarioRunner;
  readonly rebuild: RebuildComparison;
  readonly unawaited: Set<Scenario>;
}

type Check = (result: Result, manager: EntityManager) => Promise<void>;

/** The messages of `given` and `when`, and the expectations. */
export class Scenario {
  private readonly tested: readonly DeclaredDenormalizer[];
  private readonly coming: TestMessage[] = [];
  private readonly checks: Check[] = [];
  private readonly opened = new Error('here');

  constructor(
    private readonly scenarios: () => ScenarioContext,
    tested: Tested | readonly Tested[],
    private readonly given: readonly TestMessage[],
  ) {
    this.tested = [tested].flat().map(declaredOf);
    scenarios().unawaited.add(this);
  }

  /** These messages come, in this order; `times`: each is sent N times, with different ids. */
  when(messages: TestMessage | readonly TestMessage[], { times = 1 }: { times?: number } = {}): Outcomes {
    for (const message of [messages].flat()) {
      for (let time = 0; time < times; time++) this.coming.push(message);
    }
    return new Outcomes(this);
  }

  /**
   * A rebuild of the given messages comes to the same rows: at another time, and with the messages of different keys in
   * another order. Fails with the row and the column that depend on something else, such as the clock.
   */
  async rebuilt(): Promise<void> {
    const { rebuild, unawaited } = this.scenarios();
    unawaited.delete(this);
    try {
      await rebuild.compare(this.tested, this.given.map(rowOf));
    } catch (error) {
      throw withPlace(error instanceof Error ? error.message : String(error), this.opened);
    }
  }

  expect(check: Check): Expected {
    this.checks.push(check);
    return new Expected(this);
  }

  /** In both modes: the result must not depend on whether messages are applied in one batch. */
  async run(): Promise<undefined> {
    const { runner, unawaited } = this.scenarios();
    unawaited.delete(this);
    for (const way of this.ways()) {
      try {
        await runner.run(this.tested, way, this.given, this.coming, async (result, manager) => {
          for (const check of this.checks) await check(result, manager);
        });
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error);
        throw withPlace(`messages applied ${way}: ${reason}`, this.opened);
      }
    }
  }

  get place(): string {
    return placeOf(this.opened);
  }

  /** Coalescing and ranks only matter for messages that wait together. */
  private ways(): ApplyMode[] {
    const together = this.tested.some(({ options }) => options.coalesce || options.rank);
    return together ? ['in one batch'] : ['one by one', 'in one batch'];
  }
}

/** The first expectation of a scenario. */
export class Outcomes {
  constructor(private readonly scenario: Scenario) {}

  /** Applied, and the table has exactly these rows, in the order of its primary key; only the columns named here are compared. */
  // biome-ignore lint/suspicious/noThenProperty: given, when, then
  then<Row extends object>(entity: Type<Row>, rows: readonly Partial<Row>[]): Expected {
    if (typeof rows === 'function')
      throw new Error('an expectation is missing: await given(…).when(…).then(Entity, rows)');
    return this.scenario.expect(applied).and(entity, rows);
  }

  /** Applied, and exactly these messages are sent. */
  thenSent(messages: readonly Partial<Result['sent'][number]>[]): Expected {
    return this.scenario.expect(applied).andSent(messages);
  }

  /** Becomes a dead letter immediately. */
  thenRefused(reason: RegExp): Expected {
    return this.scenario.expect(async ({ failures }) => void expectFailure(failures, 'dead', reason));
  }

  /** Retried after the delay, without counting as an attempt. */
  thenDeferred(delay: string, reason = /./): Expected {
    return this.scenario.expect(async ({ failures }) => {
      const failure = expectFailure(failures, 'deferred', reason);
      deepStrictEqual(formatDuration((failure as { afterMs: number }).afterMs), delay);
    });
  }

  /** Fails, and is retried according to the schedule. */
  thenFails(reason: RegExp): Expected {
    return this.scenario.expect(async ({ failures }) => void expectFailure(failures, 'retry', reason));
  }
}

/** The scenario runs when this is awaited. */
export class Expected implements PromiseLike<undefined> {
  constructor(private readonly scenario: Scenario) {}

  and<Row extends object>(entity: Type<Row>, rows: readonly Partial<Row>[]): Expected {
    return this.scenario.expect(async (_result, manager) => {
      const { primaryColumns } = manager.connection.getMetadata(entity);
      const order = Object.fromEntries(primaryColumns.map((column) => [column.propertyName, 'ASC']));
      const found = await manager.find(entity, { order: order as never });
      deepStrictEqual(
        found.map((row, index) => named(row, rows[index])),
        rows,
      );
    });
  }

  andSent(messages: readonly Partial<Result['sent'][number]>[]): Expected {
    return this.scenario.expect(async ({ sent }) =>
      deepStrictEqual(
        sent.map((message, index) => named(message, messages[index])),
        messages,
      ),
    );
  }

  /** Messages of these types, in this order, were superseded by a later one of their slot. */
  andSuperseded(types: readonly string[]): Expected {
    return this.scenario.expect(async ({ superseded }) =>
      deepStrictEqual(
        superseded.map(({ type }) => type),
        types,
      ),
    );
  }

  // biome-ignore lint/suspicious/noThenProperty: it is awaited
  then<Fulfilled = undefined, Rejected = never>(
    onFulfilled?: ((value: undefined) => Fulfilled | PromiseLike<Fulfilled>) | null,
    onRejected?: ((reason: unknown) => Rejected | PromiseLike<Rejected>) | null,
  ): Promise<Fulfilled | Rejected> {
    return this.scenario.run().then(onFulfilled, onRejected);
  }
}

function declaredOf(tested: Tested): DeclaredDenormalizer {
  if (typeof tested !== 'function') return declared(tested.constructor, tested);
  const type = tested as Type<object>;
  if (type.length > 0) throw new Error(`the constructor of ${type.name} has parameters: pass an instance`);
  return declared(type, new type());
}

async function applied({ failures }: Result): Promise<void> {
  const [first] = failures;
  if (first)
    throw new Error(`${first.row.type} was not applied (${first.failure.kind}): ${first.failure.error}`);
}

function expectFailure(failures: Result['failures'], kind: Failure['kind'], reason: RegExp): Failure {
  const [first] = failures;
  if (!first) throw new Error(`everything was applied; expected ${kind}: ${reason}`);
  const { failure } = first;
  if (failures.length === 1 && failure.kind === kind && reason.test(failure.error)) return failure;
  const all = failures.map(({ row, failure: { kind, error } }) => `${row.type} ${kind}: ${error}`);
  throw new Error(`expected ${kind}: ${reason}, but\n${all.join('\n')}`);
}

/** The columns of a row that the expectation names; all of them if no row is expected. */
function named(row: object, expected: object | undefined): object {
  if (!expected) return { ...row };
  return Object.fromEntries(Object.keys(expected).map((name) => [name, row[name as keyof object]]));
}

function withPlace(message: string, opened: Error): Error {
  const failed = new Error(message);
  failed.stack = `${failed.name}: ${failed.message}\n    ${placeOf(opened)}`;
  return failed;
}

function placeOf(opened: Error): string {
  const lines = opened.stack?.split('\n').slice(1) ?? [];
  return lines.find((line) => !/\/src\/testing\/(?!\S+\.spec\.)/.test(line))?.trim() ?? '';
}
