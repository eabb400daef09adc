import { Injectable } from '@nestjs/common';
import { Database, type Statement } from '../../database/database.ts';
import { FORCE_INDEX_PLANS } from '../../database/force-index-plans.ts';
import type { WindowRow } from '../activity/activity-store.ts';
import { FINDINGS, type Findings, findingsOf } from '../attention/attention-store.ts';
import { OBSERVATION, type Observed, observedOf } from '../observation/observation-store.ts';

export interface Reading {
  readonly observed: readonly Observed[];
  readonly findings: Findings;
  /** If they were asked for. */
  readonly window: readonly WindowRow[] | undefined;
}

/** Everything that a snapshot shows, in one round trip. */
@Injectable()
export class LiveStore {
  constructor(private readonly database: Database) {}

  /** `rates`: the statement of the rates, or none. */
  async read(rates: readonly Statement[]): Promise<Reading> {
    const statements = [...OBSERVATION, ...FINDINGS, ...rates];
    const [, ...rows] = await this.database.inOneRoundTrip([[FORCE_INDEX_PLANS], ...statements]);
    const findings = rows.slice(OBSERVATION.length);
    return {
      observed: observedOf(rows),
      findings: findingsOf(findings),
      window: findings[FINDINGS.length] as readonly WindowRow[] | undefined,
    };
  }
}
