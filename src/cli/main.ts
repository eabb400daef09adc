#!/usr/bin/env node
import { runCli } from './cli.ts';

/** Nothing more is written than the pipe takes: a `| head` that went away is no fault. */
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
    writeAside: (text) => void process.stderr.write(text),
    watched: process.stdout.isTTY === true,
    watchedAside: process.stderr.isTTY === true,
  },
});
