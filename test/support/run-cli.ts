import { Readable } from 'node:stream';
import { runCli } from '../../src/cli/cli.ts';
import { ADMIN_KEY } from './app.ts';

/** Runs a command within this process, as an admin; its standard error is a terminal, so progress is shown. */
export function startCli(url: string, command: readonly string[], input = '') {
  let [out, aside] = ['', ''];
  const ended = runCli([...command], {
    environment: { SLUICE_URL: url, SLUICE_API_KEY: ADMIN_KEY },
    stopping: new AbortController().signal,
    stdin: Readable.from(input === '' ? [] : [Buffer.from(input)]),
    terminal: {
      write: (text) => {
        out += text;
      },
      writeError: (text) => {
        aside += text;
      },
      isTty: false,
      isErrorTty: true,
    },
  }).then((code) => ({ code, out, aside }));
  return { ended, aside: () => aside };
}
