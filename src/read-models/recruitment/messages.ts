import { Type } from 'class-transformer';
import { IsDate, IsOptional, IsString, Length, MaxDate, MinDate } from 'class-validator';

/** What upstream sends about candidates and vacancies. The key of a message is the id of what it is about. */
export const CANDIDATE_APPLIED = 'urn:ekp:events/candidate-applied';
export const CANDIDATE_INVITED = 'urn:ekp:events/candidate-invited';
export const CANDIDATE_ACCEPTED = 'urn:ekp:events/candidate-accepted';
export const CANDIDATE_REJECTED = 'urn:ekp:events/candidate-rejected';
export const CANDIDATE_WITHDRAWN = 'urn:ekp:events/candidate-withdrawn';
export const VACANCY_OPENED = 'urn:ekp:events/vacancy-opened';
export const VACANCY_CLOSED = 'urn:ekp:events/vacancy-closed';

/*
 * Tolerant readers: only the id is required, and unknown members are ignored; but what is
 * there must be what it claims to be, so that no statement of ours can fail on it.
 */

/** Anything that happened to a candidate. */
export class CandidateFact {
  @IsString()
  @Length(1, 256)
  candidateId: string;

  /** Who did it. */
  @IsOptional()
  @IsString()
  @Length(1, 200)
  by?: string;

  @IsOptional()
  @IsString()
  @Length(1, 2_000)
  note?: string;
}

export class CandidateApplied extends CandidateFact {
  @IsOptional()
  @IsString()
  @Length(1, 200)
  name?: string;

  @IsOptional()
  @IsString()
  @Length(1, 256)
  vacancyId?: string;
}

/** To an interview. */
export class CandidateInvited extends CandidateFact {
  @IsOptional()
  @Type(() => Date)
  @IsDate()
  @MinDate(new Date('2000-01-01T00:00:00Z'))
  @MaxDate(new Date('2200-01-01T00:00:00Z'))
  interviewAt?: Date;
}

/** Anything that happened to a vacancy. */
export class VacancyFact {
  @IsString()
  @Length(1, 256)
  vacancyId: string;
}

export class VacancyOpened extends VacancyFact {
  @IsOptional()
  @IsString()
  @Length(1, 200)
  title?: string;
}
