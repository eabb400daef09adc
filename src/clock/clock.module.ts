import { Global, Module } from '@nestjs/common';
import { ScheduleModule } from '@nestjs/schedule';
import { Loops } from './loops.ts';
import { ScheduledJobs } from './scheduled-jobs.ts';

@Global()
@Module({
  imports: [ScheduleModule.forRoot()],
  providers: [Loops, ScheduledJobs],
  exports: [Loops, ScheduledJobs],
})
export class ClockModule {}
