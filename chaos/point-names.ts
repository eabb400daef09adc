/** Points of the pipeline at which a replica can be killed or frozen, in the order a message reaches them. */
export const POINTS = [
  'ingest: not stored yet',
  'ingest: stored, response not sent yet',
  'inbox: leased',
  'inbox: claimed, not applied yet',
  'inbox: applied, not finished yet',
  'inbox: finished, not committed yet',
  'inbox: committed',
  'inbox: failed, not written yet',
  'inbox: failure written',
  'outbox: leased',
  'outbox: not sent yet',
  'outbox: response received, not written yet',
  'outbox: written, not committed yet',
  'outbox: committed',
  'pull: messages handed out, response not sent yet',
  'pull: leases settled, response not sent yet',
  'groups: messages handed out, response not sent yet',
  'groups: offsets committed, response not sent yet',
  'groups: partitions assigned, not committed yet',
  'rebuild: schema made, not recorded yet',
  'rebuild: applied, not committed yet',
  'rebuild: switched, not committed yet',
  'history: messages moved, not committed yet',
] as const;

export type Point = (typeof POINTS)[number];
