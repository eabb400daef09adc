import { join } from 'node:path';

/** The paths of one embedded PostgreSQL. */
export interface Layout {
  root: string;
  /** PGDATA. It is renamed into place, so it is complete if it exists. */
  data: string;
  password: string;
  /** The port of the last start, kept as long as it is free. */
  port: string;
  log: string;
}

export function layoutOf(root: string): Layout {
  return {
    root,
    data: join(root, 'postgres'),
    password: join(root, 'password'),
    port: join(root, 'port'),
    log: join(root, 'postgres.log'),
  };
}
