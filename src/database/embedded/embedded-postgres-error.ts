/** Why the embedded PostgreSQL cannot run: one line that ends with the next step. */
export class EmbeddedPostgresError extends Error {
  override readonly name = 'EmbeddedPostgresError';

  constructor(line: string, options?: ErrorOptions) {
    super(line.replace(/\s*\n\s*/g, ' ').trim(), options);
  }
}
