import { Controller, Get, Param, Query } from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiParam, ApiQuery, ApiTags } from '@nestjs/swagger';
import { DataSource } from 'typeorm';
import {
  Allow,
  ApiPending,
  ApiSortedPage,
  choiceOf,
  Etag,
  Fresh,
  flagOf,
  Pending,
  Problem,
  queryOf,
} from '../../contract/index.ts';
import { VACANCY_SORTING, Vacancies, VacancyWithCounts } from './vacancies.ts';
import { VACANCY_STATUSES } from './vacancy.ts';

@ApiTags('recruitment')
@Controller('v1/vacancies')
export class VacanciesController {
  private readonly vacancies: Vacancies;

  constructor(
    dataSource: DataSource,
    private readonly pending: Pending,
  ) {
    this.vacancies = new Vacancies(dataSource.manager);
  }

  @Get()
  @Allow('read')
  @Fresh()
  @Etag()
  @ApiOperation({ summary: 'Vacancies, with the number of candidates in each status.' })
  @ApiQuery({ name: 'status', required: false, enum: VACANCY_STATUSES, description: 'Only in this status.' })
  @ApiSortedPage(VacancyWithCounts, VACANCY_SORTING)
  list(@Query() given: unknown) {
    const query = queryOf(given, ['status', 'sort', 'limit', 'cursor']);
    const status = choiceOf('status', query.status, VACANCY_STATUSES);
    return this.vacancies.list(status, VACANCY_SORTING.request(query));
  }

  @Get(':id')
  @Allow('read')
  @Fresh()
  @Etag()
  @ApiOperation({ summary: 'A vacancy, with the number of candidates in each status.' })
  @ApiParam({ name: 'id', description: 'The id of the vacancy.', example: 'v-1' })
  @ApiPending()
  @ApiOkResponse({ description: 'The vacancy.', type: VacancyWithCounts })
  async one(@Param('id') id: string, @Query() given: unknown) {
    const pending = flagOf('pending', queryOf(given, ['pending']).pending);
    const vacancy = pending
      ? await this.pending.read(id, (manager) => new Vacancies(manager).one(id))
      : await this.vacancies.one(id);
    if (!vacancy) throw new Problem('not-found', 'No vacancy has this id.');
    return vacancy;
  }
}
