import { describe, it } from '@jest/globals';
import { messageOf, readModelTest } from '../../testing/index.ts';
import { Candidate } from './candidate.ts';
import { CandidateDenormalizer } from './candidate-denormalizer.ts';
import { CandidateStep } from './candidate-step.ts';
import {
  CANDIDATE_ACCEPTED,
  CANDIDATE_APPLIED,
  CANDIDATE_INVITED,
  CANDIDATE_REJECTED,
  VACANCY_CLOSED,
  VACANCY_OPENED,
} from './messages.ts';
import { recruitment } from './recruitment.module.ts';
import { Vacancy } from './vacancy.ts';
import { VacancyDenormalizer } from './vacancy-denormalizer.ts';

const { given } = readModelTest(recruitment);

const candidateApplied = messageOf(
  CANDIDATE_APPLIED,
  { candidateId: 'c-1', name: 'Ada', vacancyId: 'v-1' },
  'candidateId',
);
const candidateInvited = messageOf(CANDIDATE_INVITED, { candidateId: 'c-1' }, 'candidateId');
const candidateAccepted = messageOf(CANDIDATE_ACCEPTED, { candidateId: 'c-1' }, 'candidateId');
const candidateRejected = messageOf(CANDIDATE_REJECTED, { candidateId: 'c-1' }, 'candidateId');
const vacancyOpened = messageOf(VACANCY_OPENED, { vacancyId: 'v-1', title: 'Engineer' }, 'vacancyId');
const vacancyClosed = messageOf(VACANCY_CLOSED, { vacancyId: 'v-1' }, 'vacancyId');

describe('CandidateDenormalizer', () => {
  it('shows the status of a candidate, however often upstream sends it', async () => {
    await given(CandidateDenormalizer, [candidateApplied()])
      .when(candidateAccepted(), { times: 2 })
      .then(Candidate, [{ id: 'c-1', name: 'Ada', vacancyId: 'v-1', status: 'accepted', version: 2 }]);
  });

  it('keeps what happened, who did it and when', async () => {
    const at = new Date('2026-02-03T10:00:00.500Z');
    await given(CandidateDenormalizer, [candidateApplied()])
      .when([
        candidateInvited({ by: 'Grace', interviewAt: '2026-02-10T09:00:00+01:00' }, { occurredAt: at }),
        candidateRejected({ note: 'no Fortran' }),
      ])
      .then(Candidate, [{ status: 'rejected', interviewAt: new Date('2026-02-10T08:00:00Z') }])
      .and(CandidateStep, [
        { candidateId: 'c-1', step: 1, status: 'applied', by: 'urn:test', messageId: 'm-1' },
        { candidateId: 'c-1', step: 2, status: 'invited', by: 'Grace', at, messageId: 'm-2' },
        { candidateId: 'c-1', step: 3, status: 'rejected', note: 'no Fortran', messageId: 'm-3' },
      ]);
  });

  it('records a second invitation for another time as a separate step', async () => {
    await given(CandidateDenormalizer, [candidateInvited({ interviewAt: '2026-02-10T09:00:00Z' })])
      .when(candidateInvited({ interviewAt: '2026-02-11T09:00:00Z' }), { times: 2 })
      .then(Candidate, [{ status: 'invited', interviewAt: new Date('2026-02-11T09:00:00Z'), version: 2 }]);
  });

  it('adds a candidate whose last message arrives first, and completes it without going back', async () => {
    await given(CandidateDenormalizer, [])
      .when(candidateAccepted())
      .then(Candidate, [{ id: 'c-1', status: 'accepted', name: '', vacancyId: null }]);
    await given(CandidateDenormalizer, [candidateAccepted()])
      .when(candidateApplied({}, { key: 'another' }))
      .then(Candidate, [{ id: 'c-1', status: 'accepted', name: 'Ada', vacancyId: 'v-1', version: 2 }]);
  });

  it('starts again when a candidate applies for another vacancy', async () => {
    await given(CandidateDenormalizer, [candidateApplied(), candidateRejected()])
      .when(candidateApplied({ vacancyId: 'v-2' }))
      .then(Candidate, [{ status: 'applied', vacancyId: 'v-2', version: 3 }]);
  });

  it('refuses an invalid payload, with every error', async () => {
    await given(CandidateDenormalizer, [])
      .when(candidateApplied({ candidateId: 7, name: '' }, { key: 'c-1' }))
      .thenRefused(/CandidateApplied: .*\/name must be longer.*\/candidateId must be a string/)
      .and(Candidate, []);
    await given(CandidateDenormalizer, [])
      .when(candidateInvited({ interviewAt: 'soon' }))
      .thenRefused(/\/interviewAt must be a Date/);
  });
});

describe('VacancyDenormalizer', () => {
  it('shows a vacancy from opened to closed', async () => {
    await given(VacancyDenormalizer, [vacancyOpened()])
      .when(vacancyClosed())
      .then(Vacancy, [
        { id: 'v-1', title: 'Engineer', status: 'closed', closedAt: new Date('2026-01-01T00:00:01Z') },
      ]);
    await given(VacancyDenormalizer, [vacancyOpened(), vacancyClosed()])
      .when(vacancyOpened({ title: 'Engineer II' }))
      .then(Vacancy, [{ title: 'Engineer II', status: 'open', closedAt: null }]);
  });

  it('knows a vacancy from the first application on', async () => {
    await given(VacancyDenormalizer, [candidateApplied(), candidateApplied({ candidateId: 'c-2' })])
      .when([candidateApplied({ candidateId: 'c-3', vacancyId: 'v-2' }), vacancyOpened()])
      .then(Vacancy, [
        { id: 'v-1', title: 'Engineer', status: 'open' },
        { id: 'v-2', title: '', status: 'open', openedAt: null },
      ]);
  });

  it('ignores an application without a vacancy', async () => {
    await given([CandidateDenormalizer, VacancyDenormalizer], [])
      .when(candidateApplied({ vacancyId: undefined }))
      .then(Vacancy, [])
      .and(Candidate, [{ id: 'c-1', vacancyId: null }]);
  });
});

describe('a rebuild', () => {
  it('comes to the same candidates and vacancies', async () => {
    await given(
      [CandidateDenormalizer, VacancyDenormalizer],
      [
        candidateApplied({}, { occurredAt: new Date('2026-02-03T10:00:00.500Z') }),
        vacancyOpened(),
        candidateInvited({ interviewAt: '2026-02-10T09:00:00Z' }),
        candidateApplied({ candidateId: 'c-2', vacancyId: 'v-2' }),
        candidateAccepted(),
        candidateRejected({ candidateId: 'c-2', note: 'no Fortran' }),
        vacancyClosed(),
      ],
    ).rebuilt();
  });
});
