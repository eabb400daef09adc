import * as cells from './cells.mjs';
import * as consoleOf from './console.mjs';
import { consume, consumePinned, processTopic } from './consume.mjs';
import { endToEnd, ingestBatch, retention } from './end-to-end.mjs';
import * as ingest from './ingest.mjs';
import { history, hotKey, pinnedSnapshot, poisonedKey, slowPrepare } from './interference.mjs';
import { deliver, latency, manyListeners, slowListener } from './outbox.mjs';
import * as processing from './process.mjs';
import { pollLatency, rebalancing, workQueue } from './pull.mjs';
import * as reads from './reads.mjs';
import * as rebuild from './rebuild.mjs';
import { growth, replicas } from './scale.mjs';
import * as sinks from './sinks.mjs';

/** In this order; each is a `{ name, run(context) }` that returns the lines of `compare`. */
export const SCENARIOS = [
  processing,
  ingest,
  ingestBatch,
  hotKey,
  poisonedKey,
  slowPrepare,
  history,
  pinnedSnapshot,
  replicas,
  growth,
  cells,
  reads,
  rebuild,
  deliver,
  latency,
  consume,
  consumePinned,
  processTopic,
  workQueue,
  pollLatency,
  rebalancing,
  sinks,
  slowListener,
  manyListeners,
  endToEnd,
  retention,
  consoleOf,
];
