import { Controller, Get, Param, Query } from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiParam, ApiQuery, ApiTags } from '@nestjs/swagger';
import { DataSource } from 'typeorm';
import {
  Allow,
  ApiPage,
  ApiPending,
  ApiSortedPage,
  choiceOf,
  Etag,
  Fresh,
  flagOf,
  Pending,
  Problem,
  pageOf,
  pageRequest,
  queryOf,
} from '../../contract/index.ts';
import { CANDIDATE_STATUSES, Candidate } from './candidate.ts';
import { CandidateStep } from './candidate-step.ts';
import { CANDIDATE_SORTING, Candidates, CandidateWithHistory } from './candidates.ts';

const ApiId = ApiParam({ name: 'id', description: 'The id of the candidate.', example: 'c-1' });

@ApiTags('recruitment')
@Controller('v1/candidates')
export class CandidatesController {
  private readonly candidates: Candidates;

  constructor(
    dataSource: DataSource,
    private readonly pending: Pending,
  ) {
    this.candidates = new Candidates(dataSource.manager);
  }

  @Get()
  @Allow('read')
  @Fresh()
  @Etag()
  @ApiOperation({ summary: 'Candidates.' })
  @ApiQuery({
    name: 'status',
    required: false,
    enum: CANDIDATE_STATUSES,
    description: 'Only in this status.',
  })
  @ApiQuery({ name: 'vacancyId', required: false, description: 'Only of this vacancy.' })
  @ApiQuery({ name: 'name', required: false, description: 'How the name begins, in capitals or not.' })
  @ApiSortedPage(Candidate, CANDIDATE_SORTING)
  list(@Query() given: unknown) {
    const query = queryOf(given, ['status', 'vacancyId', 'name', 'sort', 'limit', 'cursor']);
    const { vacancyId, name } = query;
    const status = choiceOf('status', query.status, CANDIDATE_STATUSES);
    return this.candidates.list({ status, vacancyId, name }, CANDIDATE_SORTING.request(query));
  }

  @Get(':id')
  @Allow('read')
  @Fresh()
  @Etag()
  @ApiOperation({ summary: 'A candidate with the history.' })
  @ApiId
  @ApiPending()
  @ApiOkResponse({ description: 'The candidate.', type: CandidateWithHistory })
  async one(@Param('id') id: string, @Query() given: unknown) {
    const pending = flagOf('pending', queryOf(given, ['pending']).pending);
    const candidate = pending
      ? await this.pending.read(id, (manager) => new Candidates(manager).one(id))
      : await this.candidates.one(id);
    return candidate ?? unknownCandidate();
  }

  @Get(':id/history')
  @Allow('read')
  @Fresh()
  @Etag()
  @ApiOperation({ summary: 'What happened to a candidate, newest first.' })
  @ApiId
  @ApiPage(CandidateStep)
  async history(@Param('id') id: string, @Query() given: unknown) {
    const { limit, after } = pageRequest(queryOf(given, ['limit', 'cursor']), isStep);
    const { rows, pageSize } = await this.candidates.steps(id, after, limit);
    if (rows.length === 0 && after === undefined) unknownCandidate();
    return pageOf(
      rows,
      pageSize,
      ({ step }) => step,
      (step) => step,
    );
  }
}

function isStep(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) > 0 && (value as number) < 2 ** 31;
}

function unknownCandidate(): never {
  throw new Problem('not-found', 'No candidate has this id.');
}
