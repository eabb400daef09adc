#!/usr/bin/env node
import { runCli } from './cli.ts';

/** A reader such as `| head` that closes the pipe early is not an error. */
process.stdout.on('error', () => process.exit(0));

const stopping = new AbortController();
process.once('SIGINT', () => stopping.abort());
process.once('SIGTERM', () => stopping.abort());

process.exitCode = await runCli(process.argv.slice(2), {
  environment: process.env,
  stopping: stopping.signal,
  stdin: process.stdin,
  terminal: {
    write: (text) => void process.stdout.write(text),
    writeError: (text) => void process.stderr.write(text),
    isTty: process.stdout.isTTY === true,
    isErrorTty: process.stderr.isTTY === true,
  },
});
