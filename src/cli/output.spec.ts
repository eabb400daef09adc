import { describe, expect, it } from '@jest/globals';
import { Output, table } from './output.ts';

function terminal(isTty: boolean) {
  let text = '';
  const write = (more: string) => {
    text += more;
  };
  return { write, writeError: write, isTty, isErrorTty: isTty, text: () => text };
}

describe('the progress of a command', () => {
  it('is redrawn on one line, which ends when it is done', () => {
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
  ])('is not written for %s', (_whom, isTty, json) => {
    const seen = terminal(isTty);
    new Output(seen, json).progress(0.5, '4 of 9');
    expect(seen.text()).toBe('');
  });
});

describe('a table', () => {
  const LONG = 'x'.repeat(500);
  const printed = (isTty: boolean) => {
    const seen = terminal(isTty);
    const columns = [
      { title: 'ID', of: () => LONG },
      { title: 'FOUND', of: () => `${LONG}\u001b[2J\n${LONG}`, whole: true as const },
    ];
    new Output(seen, false).result({}, (limit) => table([{}], columns, limit));
    return seen.text().split('\n')[1]!;
  };
  const WHOLE = `${LONG} [2J ${LONG}`;

  it('is not truncated in a pipe, and contains no control characters', () => {
    expect(printed(false)).toBe(`${LONG}  ${WHOLE}`);
  });

  it('is truncated on a terminal, except for columns that must be complete', () => {
    expect(printed(true)).toBe(`${'x'.repeat(59)}…  ${WHOLE}`);
  });
});
