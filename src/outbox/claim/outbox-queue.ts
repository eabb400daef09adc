import { hostname } from 'node:os';
import { Inject, Injectable } from '@nestjs/common';
import { SETTINGS_TOKEN, type Settings } from '../../config/settings.ts';
import { Database } from '../../database/database.ts';
import { LaneMetrics } from '../../lanes/lane-metrics.ts';
import { LaneQueue } from '../../lanes/lane-queue.ts';
import { type ClaimedDelivery, DELIVERY_COLUMNS, LANE_LOST, OUTCOME_UNKNOWN } from './claimed-delivery.ts';

/** Promise 9: the attempts of a delivery that is sent twice show why. */
const RECORD_UNKNOWN = `
  INSERT INTO attempt (delivery, attempt, error)
  SELECT position, attempt, '${OUTCOME_UNKNOWN}; it may have arrived' FROM lost
  WHERE NOT EXISTS (SELECT FROM attempt AS known WHERE known.delivery = lost.position
                      AND known.attempt = lost.attempt AND known.error LIKE '%; ${LANE_LOST}')
  RETURNING delivery AS position`;

/** The deliveries of all listeners as one lane queue; each listener has a range of its lanes. */
@Injectable()
export class OutboxQueue {
  readonly lanes: LaneQueue<ClaimedDelivery>;

  constructor(database: Database, metrics: LaneMetrics, @Inject(SETTINGS_TOKEN) settings: Settings) {
    const table = { table: 'outbox', columns: DELIVERY_COLUMNS, onTakeOver: RECORD_UNKNOWN };
    this.lanes = new LaneQueue('outbox', database, table, {
      lanes: Number.MAX_SAFE_INTEGER,
      leaseMs: settings.outboxLease,
      replica: `${hostname()}:${process.pid}`,
      onTakenOver: (rows) => metrics.takenOver('outbox', rows),
    });
  }
}
