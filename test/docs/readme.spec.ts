import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { Candidate } from '../../src/read-models/recruitment/candidate.ts';
import { CANDIDATE_ACCEPTED, CANDIDATE_APPLIED } from '../../src/read-models/recruitment/messages.ts';
import { recruitment } from '../../src/read-models/recruitment/recruitment.module.ts';
import { messageOf, readModelTest } from '../../src/testing/index.ts';
import { ROOT } from '../support/built-service.ts';
import { CandidateDenormalizer } from './readme-denormalizer.ts';

const { given } = readModelTest(recruitment);
const candidateApplied = messageOf(CANDIDATE_APPLIED, { candidateId: 'c-1', name: 'Ada' }, 'candidateId');
const candidateAccepted = messageOf(CANDIDATE_ACCEPTED, { candidateId: 'c-1' }, 'candidateId');

describe('the denormalizer of the README', () => {
  it('is the class that this test runs', () => {
    const readme = readFileSync(join(ROOT, 'README.md'), 'utf8');
    const [, printed] = /<!-- denormalizer: .*? -->\n```ts\n([\s\S]*?)```/.exec(readme) ?? [];
    expect(printed).toMatch(/^@Denormalizer/);
    expect(readFileSync(join(ROOT, 'test/docs/readme-denormalizer.ts'), 'utf8')).toContain(printed);
  });

  it('keeps the status of a candidate', async () => {
    await given(CandidateDenormalizer, [candidateApplied()])
      .when(candidateAccepted())
      .then(Candidate, [{ id: 'c-1', name: 'Ada', status: 'accepted', version: 2 }]);
  });
});

describe('the README', () => {
  it('names test files that exist', () => {
    const readme = readFileSync(join(ROOT, 'README.md'), 'utf8');
    const missing = [...readme.matchAll(/`([\w/-]+\.spec\.ts)`/g)]
      .map(([, path]) => path!)
      .filter((path) => !existsSync(join(ROOT, path)));
    expect(missing).toEqual([]);
  });
});
