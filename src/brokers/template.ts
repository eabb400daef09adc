/** The parts of a message that a subject or a routing key can be made of. */
export interface TemplateValues {
  readonly key: string;
  readonly type: string;
  readonly source: string;
}

const PLACEHOLDER = /\{([^{}]*)\}/g;
const NAMES: readonly string[] = ['key', 'type', 'source'];
/** Literal text of a subject: tokens without wildcards; those that begin with $ belong to the server. */
const SUBJECT_TOKEN = /^[A-Za-z0-9_~:@=+/%-]+$/;

export function filled(
  template: string,
  values: TemplateValues,
  escaped: (text: string) => string = (text) => text,
): string {
  return template.replace(PLACEHOLDER, (_, name: keyof TemplateValues) => escaped(values[name]));
}

/** What is wrong with the placeholders; undefined: nothing. */
export function templateFault(template: string): string | undefined {
  const unknown = [...template.matchAll(PLACEHOLDER)].find(([, name]) => !NAMES.includes(name!));
  if (unknown) return `has ${unknown[0]}; only {key}, {type} and {source} are known`;
  return /[{}]/.test(template.replace(PLACEHOLDER, '')) ? 'has a brace without its counterpart' : undefined;
}

export function subjectFault(template: string): string | undefined {
  const fault = templateFault(template);
  if (fault) return fault;
  const tokens = template.replace(PLACEHOLDER, 'x').split('.');
  if (tokens.every((token) => SUBJECT_TOKEN.test(token))) return undefined;
  return 'must be tokens of letters, digits and _-~:@=+/% with a dot between them, without wildcards';
}

/**
 * A value as one token of a NATS subject: dots, wildcards, blanks, control characters and $ would change its meaning, and beyond
 * ASCII servers disagree. Percent-encoded, so that two values never become the same token.
 */
export function subjectToken(text: string): string {
  return text.replace(/[^\x21-\x7e]+|[.*>%$]/gu, (run) =>
    Array.from(
      Buffer.from(run, 'utf8'),
      (byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`,
    ).join(''),
  );
}

/** What Kafka accepts as the name of a topic. */
export function topicFault(topic: string): string | undefined {
  if (/^[A-Za-z0-9._-]{1,249}$/.test(topic) && topic !== '.' && topic !== '..') return undefined;
  return 'must be 1 to 249 letters, digits and ._-';
}
