import { ApiProperty } from '@nestjs/swagger';
import { Column, Entity, PrimaryColumn } from 'typeorm';
import { CANDIDATE_STATUSES, type CandidateStatus } from './candidate.ts';

/** One step of a candidate's history: what, who, when. */
@Entity('candidate_step')
export class CandidateStep {
  @ApiProperty({ example: 'c-1' })
  @PrimaryColumn('text', { name: 'candidate_id' })
  candidateId: string;

  @ApiProperty({ type: 'integer', description: 'The version of the candidate that it led to.' })
  @PrimaryColumn('integer')
  step: number;

  @ApiProperty({ enum: CANDIDATE_STATUSES })
  @Column('text')
  status: CandidateStatus;

  @ApiProperty({ description: 'Who did it, or else the source of the message.' })
  @Column('text')
  by: string;

  @ApiProperty()
  @Column('timestamptz')
  at: Date;

  @ApiProperty({ type: String, nullable: true })
  @Column('text', { nullable: true })
  note: string | null;

  @ApiProperty({ description: 'The message it came from: `GET /v1/messages/{id}`.' })
  @Column('text', { name: 'message_id' })
  messageId: string;
}
