import { range } from './statistics.mjs';

/**
 * The noise of the machine: the same loop and the same statements, timed repeatedly between the rounds. On a
 * quiet machine they differ by a few per cent.
 */
export class Noise {
  cpuMs = [];
  statementMs = [];

  constructor(server) {
    this.server = server;
  }

  async prepare() {
    await this.server.admin.query('CREATE TABLE IF NOT EXISTS noise (id int PRIMARY KEY, n int NOT NULL)');
    await this.server.admin.query(
      'INSERT INTO noise SELECT i, 0 FROM generate_series(1, 1000) i ON CONFLICT DO NOTHING',
    );
  }

  async measure() {
    let started = performance.now();
    burn();
    this.cpuMs.push(performance.now() - started);
    started = performance.now();
    for (let id = 1; id <= 50; id++) {
      await this.server.admin.query('UPDATE noise SET n = n + 1 WHERE id = $1', [id]);
    }
    this.statementMs.push(performance.now() - started);
  }

  /** Slowest against fastest: 1.0 is a quiet machine. */
  summary() {
    return { cpu: ratioOf(this.cpuMs), statement: ratioOf(this.statementMs), samples: this.cpuMs.length };
  }
}

function ratioOf(values) {
  const [low, high] = range(values);
  return Math.round((high / low) * 100) / 100;
}

function burn() {
  let x = 1;
  for (let i = 0; i < 60_000_000; i++) x = (Math.imul(x, 1103515245) + 12345) | 0;
  return x;
}
