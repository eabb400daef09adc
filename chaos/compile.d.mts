/** Answers with the folder. */
export function compile(dist?: string): string;
