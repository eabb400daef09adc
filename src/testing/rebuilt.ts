import type { ReadModel } from '../contract/read-model.ts';
import type { DeclaredDenormalizer } from '../inbox/denormalizers/declared-denormalizer.ts';
import type { ClaimedMessage } from '../inbox/inbox-queue.ts';
import { type ApplyMode, type Result, ScenarioRunner } from './scenario-runner.ts';
import { SHIFTED_CLOCK, SHIFTED_FUNCTIONS, withShiftedDate } from './shifted-clock.ts';
import { type Difference, firstDifference, type Tables, tablesOf } from './tables.ts';

/** Applies messages as the service does, then as a rebuild does, and throws if the tables differ. */
export class RebuildComparison {
  constructor(
    private readonly url: string,
    private readonly readModel: ReadModel,
  ) {}

  /**
   * Three times, each in a schema of its own with the model's own migrations: as they came; again in that order, at another
   * time; and key by key, as a rebuild that works on many lanes at once may come to them.
   */
  async compare(declared: readonly DeclaredDenormalizer[], rows: readonly ClaimedMessage[]): Promise<void> {
    const together = declared.some(({ options }) => options.coalesce || options.rank);
    const asTheyCame = together ? [rows] : rows.map((row) => [row]);
    const live = await this.tablesAfter(declared, asTheyCame);
    const finished = rows.filter((row) => !live.superseded.has(row.id));
    const inRebuild = declared.map(withoutSkipped);
    const later = await this.tablesAfter(
      inRebuild,
      finished.map((row) => [row]),
      SHIFTED_CLOCK,
    );
    const atAnotherTime = firstDifference(live.tables, later.tables);
    if (atAnotherTime) throw new Error(describe(atAnotherTime, causeOf(atAnotherTime)));
    const reordered = await this.tablesAfter(inRebuild, keyByKey(finished));
    const inAnotherOrder = firstDifference(live.tables, reordered.tables);
    if (inAnotherOrder) throw new Error(describe(inAnotherOrder, ORDER));
  }

  private async tablesAfter(
    declared: readonly DeclaredDenormalizer[],
    batches: readonly (readonly ClaimedMessage[])[],
    clock?: typeof SHIFTED_CLOCK,
  ): Promise<{ readonly tables: Tables; readonly superseded: ReadonlySet<string> }> {
    const name = 'rebuilt_by_the_test_kit';
    const runner = await ScenarioRunner.open(this.url, { ...this.readModel, name });
    const superseded = new Set<string>();
    try {
      if (clock) await runner.query(SHIFTED_FUNCTIONS);
      for (const batch of batches) {
        const way: ApplyMode = batch.length > 1 ? 'in one batch' : 'one by one';
        const apply = () => runner.apply(declared, batch, way, clock?.(name));
        const result = await (clock ? withShiftedDate(apply) : apply());
        refuseFailed(result);
        for (const { id } of result.superseded) superseded.add(id);
      }
      return { tables: await tablesOf(runner, name), superseded };
    } finally {
      await runner.query(`DROP SCHEMA IF EXISTS ${name} CASCADE`);
      await runner.close();
    }
  }
}

/** With `prepare: 'skip'` a rebuild does not call it. */
function withoutSkipped(declared: DeclaredDenormalizer): DeclaredDenormalizer {
  if (declared.options.rebuild?.prepare !== 'skip') return declared;
  return { ...declared, instance: Object.create(declared.instance, { prepare: { value: undefined } }) };
}

/** The keys in the opposite order of their first messages; within a key the order stays. */
function keyByKey(rows: readonly ClaimedMessage[]): ClaimedMessage[][] {
  const keys = [...new Set(rows.map(({ key }) => key))].reverse();
  return keys.map((key) => rows.filter((row) => row.key === key));
}

const OTHER_TABLE = /relation "(.+)" does not exist/;

function refuseFailed({ failures: [failed] }: Result): void {
  if (!failed) return;
  const { row, failure } = failed;
  const [, table] = OTHER_TABLE.exec(failure.error) ?? [];
  const hint = table
    ? `; a rebuild has only the tables of this read model, so it must not read "${table}": take what it needs from the message, or keep it in a table of its own`
    : '';
  throw new Error(`rebuilt: ${row.type} was not applied (${failure.kind}): ${failure.error}${hint}`);
}

const CLOCK =
  'it reads the clock: take times from the message (message.occurredAt ?? message.receivedAt), also in place of now() and DEFAULT now()';
const ELSEWHERE =
  'it takes something from elsewhere than the message and the tables: a random number, a generated id, or what prepare returned. ' +
  'Derive it from the message, such as message.id or its payload';
const ORDER =
  'it depends on the order of messages with different keys, which a rebuild does not keep (a number from a sequence does, too): ' +
  'give them one key, or let one statement decide by what the messages say, such as GREATEST(changed_at, $2)';

function causeOf({ live, rebuilt }: Difference): string {
  return isTime(live) && isTime(rebuilt) ? CLOCK : ELSEWHERE;
}

function isTime(value: unknown): boolean {
  return typeof value === 'string' && /^\d{4}-\d{2}-\d{2}(T[\d:.+-]+)?$/.test(value);
}

function describe({ table, key, column, live, rebuilt }: Difference, cause: string): string {
  const row = `${table} (${key})`;
  if (column !== undefined)
    return `rebuilt: ${row}: "${column}" is ${JSON.stringify(live)} live and ${JSON.stringify(rebuilt)} rebuilt; ${cause}`;
  return `rebuilt: ${row} exists only ${live === undefined ? 'rebuilt' : 'live'}; ${cause}`;
}
