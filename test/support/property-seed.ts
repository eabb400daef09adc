import fc from 'fast-check';

/** A fixed seed, so that a failing test is caused by a change; `PROPERTY_SEED=$RANDOM npm run jest` tries other cases. */
fc.configureGlobal({ seed: Number(process.env.PROPERTY_SEED ?? 1) });
