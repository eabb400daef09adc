/** How the moody receiver feels: fair to all, failing now and then in every way, or failing always. */
export type Mood = 'fair' | 'moody' | 'down';

/** What the receivers are told. */
export interface Receiving {
  readonly listener: string;
  readonly secret?: string;
  readonly mood?: Mood;
  readonly end?: true;
}
