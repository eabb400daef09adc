import { Denormalizer } from '../../contract/denormalizer.ts';
import type { Message } from '../../contract/message.ts';
import type { ReadModelTransaction } from '../../contract/read-model-transaction.ts';
import {
  CANDIDATE_APPLIED,
  CandidateApplied,
  VACANCY_CLOSED,
  VACANCY_OPENED,
  VacancyFact,
  VacancyOpened,
} from './messages.ts';
import type { VacancyStatus } from './vacancy.ts';
import { MENTION, TELL } from './vacancy-denormalizer.sql.ts';

/** What a batch tells of one vacancy. */
interface VacancyFacts {
  readonly id: string;
  readonly status: VacancyStatus;
  readonly title?: string | undefined;
  readonly opened_at?: Date | undefined;
  readonly closed_at?: Date | undefined;
}

/**
 * Vacancies. One that somebody applied for is there even if nobody told us that it was opened: the two messages have
 * different keys, so either may be first.
 *
 * How many candidates stand where is counted when it is asked (`vacancies.ts`), not kept here: a counter is a row that
 * all candidates of the vacancy share, so every batch would wait for every other one's commit. Counting for a page of
 * 50 vacancies with 200 candidates each takes 9 ms among 100,000 candidates.
 */
@Denormalizer({
  types: [VACANCY_OPENED, VACANCY_CLOSED, CANDIDATE_APPLIED],
  payload: {
    [VACANCY_OPENED]: VacancyOpened,
    [VACANCY_CLOSED]: VacancyFact,
    [CANDIDATE_APPLIED]: CandidateApplied,
  },
})
export class VacancyDenormalizer {
  async applyBatch(
    messages: readonly Message<VacancyFact | CandidateApplied>[],
    tx: ReadModelTransaction,
  ): Promise<void> {
    const named = new Set(messages.flatMap(({ payload }) => payload.vacancyId ?? []));
    if (named.size === 0) return;
    await tx.query(MENTION, [[...named].sort()]);
    const told = factsOf(messages);
    if (told.length > 0) await tx.query(TELL, [JSON.stringify(told)]);
  }
}

/** The last word on each vacancy: one statement cannot change a row twice. */
function factsOf(messages: readonly Message<VacancyFact | CandidateApplied>[]): VacancyFacts[] {
  const told = new Map<string, VacancyFacts>();
  for (const { payload, type, occurredAt, receivedAt } of messages) {
    if (!(payload instanceof VacancyFact)) continue;
    const id = payload.vacancyId;
    const at = occurredAt ?? receivedAt;
    if (type === VACANCY_CLOSED) told.set(id, { ...told.get(id), id, status: 'closed', closed_at: at });
    else {
      const { title = told.get(id)?.title } = payload as VacancyOpened;
      told.set(id, { id, status: 'open', title, opened_at: at });
    }
  }
  return [...told.values()];
}
