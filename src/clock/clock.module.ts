import { Global, Module } from '@nestjs/common';
import { Loops } from './loops.ts';

@Global()
@Module({ providers: [Loops], exports: [Loops] })
export class ClockModule {}
