import { Module } from '@nestjs/common';
import type { ReadModel } from '../../contract/index.ts';
import { Candidate } from './candidate.ts';
import { CandidateDenormalizer } from './candidate-denormalizer.ts';
import { CandidateStep } from './candidate-step.ts';
import { CandidatesController } from './candidates.controller.ts';
import { Recruitment1763251300001 } from './migrations/1763251300001-recruitment.ts';
import { VacanciesController } from './vacancies.controller.ts';
import { Vacancy } from './vacancy.ts';
import { VacancyDenormalizer } from './vacancy-denormalizer.ts';

@Module({
  providers: [CandidateDenormalizer, VacancyDenormalizer],
  controllers: [CandidatesController, VacanciesController],
})
export class RecruitmentModule {}

/** Who applied for what, and what became of it. The example to copy; delete it when you have your own. */
export const recruitment: ReadModel = {
  name: 'recruitment',
  module: RecruitmentModule,
  entities: [Candidate, CandidateStep, Vacancy],
  migrations: [Recruitment1763251300001],
};
