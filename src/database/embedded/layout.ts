import { join } from 'node:path';

/** Where everything of one embedded PostgreSQL lies. */
export interface Layout {
  root: string;
  /** PGDATA. It appears by one rename, so where it exists it is complete. */
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
