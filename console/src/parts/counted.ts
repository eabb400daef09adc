import { snapshot } from '../live.ts';

/** The sum of numbers of one listener, each counted up to a limit: then it may be more, and says so. */
export function counted(numbers: readonly number[], show: (value: number) => string): string {
  const max = snapshot.value?.backlog.countedUpTo ?? Number.POSITIVE_INFINITY;
  const sum = numbers.reduce((total, one) => total + one, 0);
  return numbers.some((one) => one >= max) ? `${show(sum)}+` : show(sum);
}
