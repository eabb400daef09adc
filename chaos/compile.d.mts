/** Returns the folder. */
export function compile(dist?: string): string;
