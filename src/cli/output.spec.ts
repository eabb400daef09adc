import { describe, expect, it } from '@jest/globals';
import { Output } from './output.ts';

function terminal(watched: boolean) {
  let text = '';
  const write = (more: string) => {
    text += more;
  };
  return { write, writeAside: write, watched, watchedAside: watched, text: () => text };
}

describe('the progress of a command', () => {
  it('is drawn over and over on one line, which ends when it is done', () => {
    const seen = terminal(true);
    const output = new Output(seen, false);
    output.progress(0, '0 of 9');
    output.progress(0.5, '4 of 9');
    output.progress(1, '9 of 9');
    expect(seen.text().split('\r\x1b[2K')).toEqual([
      '',
      `${'░'.repeat(30)} 0 %  0 of 9`,
      `${'█'.repeat(15)}${'░'.repeat(15)} 50 %  4 of 9`,
      `${'█'.repeat(30)} 100 %  9 of 9\n`,
    ]);
  });

  it.each([
    ['a file', false, false],
    ['a script', true, true],
  ])('is not written for %s', (_whom, watched, json) => {
    const seen = terminal(watched);
    new Output(seen, json).progress(0.5, '4 of 9');
    expect(seen.text()).toBe('');
  });
});
