import { Injectable } from '@nestjs/common';
import { Database } from '../../database/database.ts';
import { Reads } from '../../database/reads.ts';
import { BEAT, LIST_REPLICAS, REMOVE_REPLICA } from './replicas.sql.ts';

export interface ReplicaRow {
  readonly id: string;
  readonly roles: readonly string[];
  readonly version: string;
  readonly host: string;
  readonly startedAt: Date;
  readonly seenAt: Date;
  readonly alive: boolean;
  readonly lanes: { readonly inbox: number; readonly outbox: number };
}

/** More than anyone runs. */
const MAX_LISTED = 1_000;

@Injectable()
export class ReplicasStore {
  constructor(
    private readonly database: Database,
    private readonly reads: Reads,
  ) {}

  async beat(
    { id, process, host }: { id: string; process: string; host: string },
    roles: readonly string[],
    version: string,
  ): Promise<void> {
    await this.database.execute(BEAT, [id, process, host, roles, version]);
  }

  async remove(id: string): Promise<void> {
    await this.database.execute(REMOVE_REPLICA, [id]);
  }

  list(): Promise<ReplicaRow[]> {
    return this.reads.query(LIST_REPLICAS, [MAX_LISTED]);
  }
}
