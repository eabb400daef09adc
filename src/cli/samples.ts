export type Labels = Readonly<Record<string, string>>;

interface Sample {
  readonly name: string;
  readonly labels: Labels;
  readonly value: number;
}

const LINE = /^sluice_(\w+)(?:\{(.*)\})? (\S+)$/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

/** The samples of `/metrics` of a replica. */
export class Samples {
  private readonly samples: readonly Sample[];

  constructor(text: string) {
    this.samples = text.split('\n').flatMap((line) => {
      const [, name, labels = '', value] = LINE.exec(line) ?? [];
      return name ? [{ name, labels: labelsOf(labels), value: Number(value) }] : [];
    });
  }

  /** The sum of the samples with these labels; undefined if there is none. */
  sum(name: string, labels: Labels = {}): number | undefined {
    const found = this.find(name, labels);
    return found.length === 0 ? undefined : found.reduce((sum, { value }) => sum + value, 0);
  }

  max(name: string, labels: Labels = {}): number | undefined {
    const found = this.find(name, labels);
    return found.length === 0 ? undefined : Math.max(...found.map(({ value }) => value));
  }

  private find(name: string, labels: Labels): Sample[] {
    return this.samples.filter(
      (sample) =>
        sample.name === name &&
        Object.entries(labels).every(([label, value]) => (sample.labels[label] ?? '') === value),
    );
  }
}

function labelsOf(text: string): Labels {
  return Object.fromEntries(
    [...text.matchAll(LABEL)].map(([, name, value]) => [
      name,
      value!.replaceAll(/\\(.)/g, (_, escaped) => (escaped === 'n' ? '\n' : escaped)),
    ]),
  );
}
