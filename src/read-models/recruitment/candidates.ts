import { ApiProperty } from '@nestjs/swagger';
import type { EntityManager } from 'typeorm';
import { type Page, rowsWithinBytes, type SortedRequest, Sorting } from '../../contract/index.ts';
import { Candidate, type CandidateStatus } from './candidate.ts';
import { CandidateStep } from './candidate-step.ts';

export class CandidateWithHistory extends Candidate {
  @ApiProperty({
    type: [CandidateStep],
    description:
      'The latest 100 steps, or fewer where they are large; oldest first. All of them: `/history`.',
  })
  history: CandidateStep[];
}

export interface CandidateFilter {
  readonly status?: CandidateStatus | undefined;
  readonly vacancyId?: string | undefined;
  /** How the name begins. */
  readonly name?: string | undefined;
}

export const CANDIDATE_SORTING = new Sorting({ appliedAt: 'time', name: 'text' }, '-appliedAt');
type CandidateSort = 'appliedAt' | 'name';

const SHOWN_STEPS = 100;

/** Reads candidates through the manager it is given: the pool's, or one that shows what is pending. */
export class Candidates {
  constructor(private readonly manager: EntityManager) {}

  list(filter: CandidateFilter, page: SortedRequest<CandidateSort>): Promise<Page<Candidate>> {
    const builder = this.manager.createQueryBuilder(Candidate, 'candidate');
    if (filter.status) builder.andWhere('candidate.status = :status', { status: filter.status });
    if (filter.vacancyId)
      builder.andWhere('candidate.vacancyId = :vacancyId', { vacancyId: filter.vacancyId });
    if (filter.name)
      builder.andWhere('lower(candidate.name) LIKE lower(:begins)', { begins: `${escaped(filter.name)}%` });
    return CANDIDATE_SORTING.page(builder, page, (candidate) => candidate);
  }

  async one(id: string): Promise<CandidateWithHistory | undefined> {
    const candidate = await this.manager.findOneBy(Candidate, { id });
    if (!candidate) return undefined;
    const { rows, pageSize } = await this.steps(id, undefined, SHOWN_STEPS);
    return { ...candidate, history: rows.slice(0, pageSize).reverse() };
  }

  /** Newest first. */
  steps(id: string, before: number | undefined, limit: number) {
    const builder = this.manager
      .createQueryBuilder(CandidateStep, 'step')
      .where('step.candidateId = :id', { id });
    if (before !== undefined) builder.andWhere('step.step < :before', { before });
    return rowsWithinBytes(builder.orderBy('step.step', 'DESC'), limit);
  }
}

/** What LIKE would take for a pattern. */
function escaped(text: string): string {
  return text.replace(/[\\%_]/g, '\\$&');
}
