import { ApiProperty } from '@nestjs/swagger';
import { Column, Entity, PrimaryColumn } from 'typeorm';

export const VACANCY_STATUSES = ['open', 'closed'] as const;
export type VacancyStatus = (typeof VACANCY_STATUSES)[number];

@Entity('vacancy')
export class Vacancy {
  @ApiProperty({ example: 'v-1' })
  @PrimaryColumn('text')
  id: string;

  @ApiProperty({ example: 'Engineer', description: 'Empty until upstream has sent it.' })
  @Column('text')
  title: string;

  @ApiProperty({ enum: VACANCY_STATUSES })
  @Column('text')
  status: VacancyStatus;

  @ApiProperty({ type: Date, nullable: true })
  @Column('timestamptz', { name: 'opened_at', nullable: true })
  openedAt: Date | null;

  @ApiProperty({ type: Date, nullable: true })
  @Column('timestamptz', { name: 'closed_at', nullable: true })
  closedAt: Date | null;
}
