import { ApiProperty } from '@nestjs/swagger';
import type { EntityManager } from 'typeorm';
import { type Page, type SortedRequest, Sorting } from '../../contract/index.ts';
import { CANDIDATE_STATUSES, Candidate, type CandidateStatus } from './candidate.ts';
import { Vacancy, type VacancyStatus } from './vacancy.ts';

type Counts = Record<CandidateStatus, number>;

export class VacancyWithCounts extends Vacancy {
  @ApiProperty({
    type: 'object',
    required: [...CANDIDATE_STATUSES],
    properties: Object.fromEntries(CANDIDATE_STATUSES.map((status) => [status, { type: 'integer' }])),
    description: 'The number of candidates in each status.',
  })
  candidates: Counts;
}

export const VACANCY_SORTING = new Sorting({ id: 'text', title: 'text' }, 'id');
type VacancySort = 'id' | 'title';

export class Vacancies {
  constructor(private readonly manager: EntityManager) {}

  async list(
    status: VacancyStatus | undefined,
    request: SortedRequest<VacancySort>,
  ): Promise<Page<VacancyWithCounts>> {
    const builder = this.manager.createQueryBuilder(Vacancy, 'vacancy');
    if (status) builder.andWhere('vacancy.status = :status', { status });
    const { items, next } = await VACANCY_SORTING.page(builder, request, (vacancy) => vacancy);
    return { items: await this.withCounts(items), next };
  }

  async one(id: string): Promise<VacancyWithCounts | undefined> {
    const vacancy = await this.manager.findOneBy(Vacancy, { id });
    return vacancy ? (await this.withCounts([vacancy]))[0] : undefined;
  }

  private async withCounts(vacancies: readonly Vacancy[]): Promise<VacancyWithCounts[]> {
    if (vacancies.length === 0) return [];
    const rows = await this.manager
      .createQueryBuilder(Candidate, 'candidate')
      .select('candidate.vacancyId', 'vacancyId')
      .addSelect('candidate.status', 'status')
      .addSelect('count(*)::integer', 'count')
      .where('candidate.vacancyId = ANY (:ids)', { ids: vacancies.map(({ id }) => id) })
      .groupBy('candidate.vacancyId, candidate.status')
      .getRawMany<{ vacancyId: string; status: CandidateStatus; count: number }>();
    return vacancies.map((vacancy) => {
      const candidates = Object.fromEntries(CANDIDATE_STATUSES.map((status) => [status, 0])) as Counts;
      for (const row of rows) if (row.vacancyId === vacancy.id) candidates[row.status] = row.count;
      return { ...vacancy, candidates };
    });
  }
}
