import { createSluice } from './index.ts';

/** The service with the read models of this repository; imported late, as tracing requires. */
await createSluice({
  readModels: async () => (await import('./read-models/read-models.module.ts')).READ_MODELS,
}).serve();
