import fc from 'fast-check';

/** One seed for every run, so that a red test is a change's fault; `PROPERTY_SEED=$RANDOM npm run jest` looks further. */
fc.configureGlobal({ seed: Number(process.env.PROPERTY_SEED ?? 1) });
