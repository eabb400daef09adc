import 'reflect-metadata';
import { ScheduledJobs } from '../src/clock/scheduled-jobs.ts';
import { duration } from '../src/config/setting.ts';
import { SETTINGS } from '../src/config/settings.schema.ts';
import type { ReadModel } from '../src/contract/read-model.ts';
import { READ_MODELS } from '../src/read-models/read-models.module.ts';
import { chain } from './chain.ts';
import { replaceMethod } from './change-code.ts';

const UPKEEP = ['retention', 'history'];
const UPKEEP_MS = 1_000;

/*
 * The built service, started by its own main, with four differences: its read model is the chain, OUTBOX_LEASE may be so
 * short that a run can wait for it to expire, retention and the upkeep of history run every second, and its methods send a
 * signal at points on command. The guards named in CHAOS_WITHOUT are removed.
 */
const { CHAOS_WITHOUT = '', CHAOS_PREVIOUS } = process.env;
(READ_MODELS as ReadModel[]).splice(0, READ_MODELS.length, chain);
Object.assign(SETTINGS.OUTBOX_LEASE, duration({ min: '1s', max: '10m', default: '60s', about: '' }));
replaceMethod(
  ScheduledJobs,
  'add',
  (add) =>
    function (job) {
      add.call(this, UPKEEP.includes(job.name) ? { ...job, intervalMs: UPKEEP_MS } : job);
    },
);
// The previous version may have other methods.
if (!CHAOS_PREVIOUS) {
  const { installPoints } = await import('./points.ts');
  installPoints();
}
if (CHAOS_WITHOUT) {
  const { plantBugs } = await import('./bugs.ts');
  plantBugs(CHAOS_WITHOUT.split(','));
}
process.once('disconnect', () => process.exit(1));
await import('../src/main.ts');
