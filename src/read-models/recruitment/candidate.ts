import { ApiProperty } from '@nestjs/swagger';
import { Column, Entity, PrimaryColumn } from 'typeorm';

export const CANDIDATE_STATUSES = ['applied', 'invited', 'accepted', 'rejected', 'withdrawn'] as const;
export type CandidateStatus = (typeof CANDIDATE_STATUSES)[number];

/** A row is made to be read: the API returns it as it is. */
@Entity('candidate')
export class Candidate {
  @ApiProperty({ example: 'c-1' })
  @PrimaryColumn('text')
  id: string;

  @ApiProperty({ example: 'Ada', description: 'Empty until upstream has sent it.' })
  @Column('text')
  name: string;

  @ApiProperty({ type: String, nullable: true, example: 'v-1' })
  @Column('text', { name: 'vacancy_id', nullable: true })
  vacancyId: string | null;

  @ApiProperty({ enum: CANDIDATE_STATUSES })
  @Column('text')
  status: CandidateStatus;

  @ApiProperty({ type: Date, nullable: true })
  @Column('timestamptz', { name: 'interview_at', nullable: true })
  interviewAt: Date | null;

  @ApiProperty({ description: 'When the application was made, or else the earliest thing known of it.' })
  @Column('timestamptz', { name: 'applied_at' })
  appliedAt: Date;

  @ApiProperty()
  @Column('timestamptz', { name: 'changed_at' })
  changedAt: Date;

  @ApiProperty({ type: 'integer', description: 'Counts the changes, from 1; each is a step of the history.' })
  @Column('integer')
  version: number;
}
