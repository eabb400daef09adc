import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { Injectable } from '@nestjs/common';

/** Who this replica is among all replicas. Two starts of it are two replicas. */
@Injectable()
export class ReplicaIdentity {
  readonly host = hostname();
  /** The name under which it holds lanes. */
  readonly process = `${this.host}:${process.pid}`;
  readonly id = `${this.process}:${randomBytes(3).toString('hex')}`;
}
