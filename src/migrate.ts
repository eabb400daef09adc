import { createSluice } from './index.ts';
import { untilDone } from './start-replica.ts';

/** `npm run migrate`: run by a release before its replicas start with MIGRATIONS=off. */
await untilDone(async () => {
  const { READ_MODELS } = await import('./read-models/read-models.module.ts');
  await createSluice({ readModels: READ_MODELS }).migrate();
});
