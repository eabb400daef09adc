import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';

const root = new URL('../../', import.meta.url);
const rows = readFileSync(new URL('docs/requirements.md', root), 'utf8')
  .split('\n')
  .map((line) => /^\| ([A-E]\d+) \| .* \| (.*) \|$/.exec(line))
  .filter((match) => match !== null)
  .map(([, id, proof]) => ({ id: id!, proof: proof! }));

describe('docs/requirements.md', () => {
  it('lists every requirement once', () => {
    const ids = rows.map(({ id }) => id);
    const count = { A: 16, B: 13, C: 8, D: 8, E: 15 };
    const wanted = Object.entries(count).flatMap(([letter, n]) =>
      Array.from({ length: n }, (_, i) => `${letter}${i + 1}`),
    );
    expect(ids.toSorted()).toEqual(wanted.toSorted());
  });

  it('names for each a test file that names it, or that it does not exist yet', () => {
    for (const { id, proof } of rows) {
      const files = [...proof.matchAll(/`([^`]+\.spec\.ts)`/g)].map(([, path]) => path!);
      if (files.length === 0)
        expect([id, proof]).toEqual([id, expect.stringMatching(/^(not yet|not wanted)/)]);
      for (const path of files) {
        const text = readFileSync(new URL(path, root), 'utf8');
        expect([id, path, new RegExp(`\\b${id}\\b`).test(text)]).toEqual([id, path, true]);
      }
    }
  });
});
