import { hostname } from 'node:os';
import { Inject, Injectable } from '@nestjs/common';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import { Database } from '../../database/database.ts';
import { LaneMetrics } from '../../lanes/lane-metrics.ts';
import { LaneQueue } from '../../lanes/lane-queue.ts';
import { CLAIMED_COLUMNS, type ClaimedMessage } from '../claimed-message.ts';
import { INBOX_LANES } from '../new-message.ts';

/** The inbox as a lane queue. */
@Injectable()
export class InboxQueue {
  readonly lanes: LaneQueue<ClaimedMessage>;

  constructor(database: Database, metrics: LaneMetrics, @Inject(SETTINGS_TOKEN) settings: Settings) {
    const table = { table: 'inbox', columns: CLAIMED_COLUMNS };
    this.lanes = new LaneQueue('inbox', database, table, {
      lanes: INBOX_LANES,
      leaseMs: settings.inboxLease,
      replica: `${hostname()}:${process.pid}`,
      suspectsApart: true,
      onTakenOver: (rows) => metrics.takenOver('inbox', rows),
      onLost: (lanes) => metrics.leasesLost('inbox', lanes),
    });
  }
}
