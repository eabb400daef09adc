import { Injectable } from '@nestjs/common';

/** Whether new requests should be sent to this replica. */
@Injectable()
export class Readiness {
  status: 'starting' | 'ready' | 'draining' = 'starting';

  get ready(): boolean {
    return this.status === 'ready';
  }
}
