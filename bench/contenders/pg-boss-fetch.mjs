import { Progress } from '../harness/progress.mjs';
import { QUEUE, start } from './pg-boss.mjs';

export { seed, setup } from './pg-boss.mjs';

/** Fetched and completed in batches by workers that do nothing with them. */
export async function drain({ url, complete, workers, batch, ...counts }) {
  const progress = new Progress(counts);
  const boss = await start(url);
  const work = async () => {
    while (!progress.isOver) {
      const jobs = await boss.fetch(QUEUE, { batchSize: progress.batch(batch) });
      if (jobs.length === 0) return;
      await boss.complete(
        QUEUE,
        jobs.map(({ id }) => id),
      );
      progress.handled(jobs.length);
    }
  };
  await Promise.all(Array.from({ length: workers }, work));
  const result = await progress.over();
  await boss.stop({ graceful: false });
  return result;
}
