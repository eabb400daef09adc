/** Reads tables of the service. */
export interface Queries {
  query<Row>(sql: string): Promise<Row[]>;
}
