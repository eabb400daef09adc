import { readFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { checkSource, SOURCE_FIELDS, type SourceDefinition } from '../brokers/source-definition.ts';
import { checkGroupBody, type GroupDefinition, groupNameFault } from '../groups/group-definition.ts';
import { isName, NAME_FORM } from '../http/names.ts';
import { Problem } from '../http/problems.ts';
import { type Bounds, checkDefinition, withSuggestion } from '../listeners/check-definition.ts';
import type { ListenerDefinition } from '../listeners/listener-definition.ts';
import { checkTopicBody, type TopicDefinition, topicNameFault } from '../topics/topic-definition.ts';
import { credentialsOf, secretOf } from './confidential-files.ts';
import { isMapping, YamlLines } from './yaml-lines.ts';

/** An entry that defines a listener. */
export interface ListenerEntry {
  readonly name: string;
  readonly definition: ListenerDefinition;
  /** Absent: the service generates one. */
  readonly secret: string | undefined;
  readonly line: number;
}

/** An entry that defines a topic or a group. */
export interface Entry<Definition> {
  readonly name: string;
  readonly definition: Definition;
  /** The line of a field, by its JSON pointer; '' is the entry. */
  lineOf(pointer: string): number;
}

/** A section that is absent says nothing: what it would define stays as it is. */
export interface Definitions {
  readonly listeners?: readonly ListenerEntry[];
  readonly topics?: readonly Entry<TopicDefinition>[];
  readonly groups?: readonly Entry<GroupDefinition>[];
  readonly sources?: readonly Entry<SourceDefinition>[];
}

export type FileContent =
  | { readonly kind: 'definitions'; readonly definitions: Definitions }
  /** One line each: the file, the line, what is wrong. */
  | { readonly kind: 'invalid'; readonly faults: readonly string[] };

type Fault = { readonly path: readonly (string | number)[]; readonly detail: string };

const SECTIONS = ['listeners', 'topics', 'groups', 'sources'] as const;
type Section = (typeof SECTIONS)[number];

/** Reads and checks the whole file; reports all errors together. */
export async function readDefinitionsFile(path: string, bounds: Bounds): Promise<FileContent> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return { kind: 'invalid', faults: [`LISTENERS_FILE=${path} cannot be read (${code})`] };
  }
  const yaml = YamlLines.parse(text);
  if (yaml.faults.length) {
    return { kind: 'invalid', faults: yaml.faults.map(({ line, detail }) => `${path}:${line}: ${detail}`) };
  }
  const faults: Fault[] = shapeFaults(yaml.value);
  const definitions = await readSections(yaml, { folder: dirname(path), bounds, faults });
  if (faults.length === 0) return { kind: 'definitions', definitions };
  const lines = faults.map((fault) => ({ ...fault, line: yaml.lineOf(fault.path) }));
  lines.sort((a, b) => a.line - b.line);
  return {
    kind: 'invalid',
    faults: lines.map(({ line, path: where, detail }) => `${path}:${line}: ${placeOf(where)} ${detail}`),
  };
}

function shapeFaults(value: unknown): Fault[] {
  const given = isMapping(value) ? SECTIONS.filter((section) => value[section] !== undefined) : [];
  const names = Object.keys(isMapping(value) ? value : {});
  const unknown = names.filter((name) => !SECTIONS.some((section) => section === name));
  return [
    ...(given.length === 0
      ? [{ path: [], detail: 'must have the list "listeners", "topics", "groups" or "sources"' }]
      : []),
    ...unknown.map((name) => ({
      path: [name],
      detail: 'is not known here; only "listeners", "topics", "groups" and "sources" are',
    })),
    ...given.flatMap((section) =>
      Array.isArray((value as Record<string, unknown>)[section])
        ? []
        : [{ path: [section], detail: 'must be a list' }],
    ),
  ];
}

async function readSections(
  yaml: YamlLines,
  context: Omit<EntryContext, 'index' | 'yaml'>,
): Promise<Definitions> {
  const read = async <E>(
    section: Section,
    readOne: (item: unknown, context: EntryContext) => Promise<E | undefined>,
  ): Promise<E[] | undefined> => {
    const items = isMapping(yaml.value) ? yaml.value[section] : undefined;
    if (!Array.isArray(items)) return undefined;
    const entries = await Promise.all(items.map((item, index) => readOne(item, { ...context, index, yaml })));
    context.faults.push(...repeatedNames(section, items));
    return entries.filter((entry) => entry !== undefined);
  };
  const listeners = await read('listeners', readListener);
  const topics = await read('topics', (item, more) => readDefinition('topics', item, TOPIC_RULES, more));
  const groups = await read('groups', (item, more) => readDefinition('groups', item, GROUP_RULES, more));
  const sources = await read('sources', readSource);
  return {
    ...(listeners && { listeners }),
    ...(topics && { topics }),
    ...(groups && { groups }),
    ...(sources && { sources }),
  };
}

interface EntryContext {
  readonly index: number;
  readonly yaml: YamlLines;
  /** The folder that a relative `secretFile` is resolved against. */
  readonly folder: string;
  readonly bounds: Bounds;
  readonly faults: Fault[];
}

async function readListener(item: unknown, context: EntryContext): Promise<ListenerEntry | undefined> {
  const { index, yaml, folder, bounds, faults } = context;
  const path = ['listeners', index];
  if (!isMapping(item)) {
    faults.push({ path, detail: 'must be a mapping with a name, types and a url' });
    return undefined;
  }
  const { name, secret, secretFile, credentialsFile, ...given } = item;
  if (!isName(name)) {
    const detail = name === undefined ? 'is required' : `must be ${NAME_FORM}`;
    faults.push({ path: [...path, 'name'], detail });
  }
  const own = await secretOf(secret, secretFile, folder);
  if ('fault' in own) faults.push({ path: [...path, own.field], detail: own.fault });
  const read = await credentialsOf(given.credentials, credentialsFile, folder);
  if (read.fault) faults.push({ path: [...path, 'credentialsFile'], detail: read.fault });
  const checked = await checkDefinition({ ...given, ...read.credentials }, bounds);
  if (checked.kind === 'invalid') {
    for (const { pointer, detail } of checked.faults)
      faults.push({ path: [...path, ...stepsOf(pointer)], detail });
    return undefined;
  }
  if ('fault' in own) return undefined;
  if ((checked.definition.mode ?? 'webhook') !== 'webhook' && own.secret !== undefined) {
    const field = secret === undefined ? 'secretFile' : 'secret';
    faults.push({ path: [...path, field], detail: 'is only for the mode "webhook"' });
    return undefined;
  }
  return {
    name: name as string,
    definition: checked.definition,
    secret: own.secret,
    line: yaml.lineOf(path),
  };
}

interface Rules<Definition> {
  readonly needs: string;
  readonly fields: readonly string[];
  nameFault(name: unknown): string | undefined;
  /** Throws a Problem that lists every error. */
  check(body: unknown): Promise<Definition>;
}

const TOPIC_RULES: Rules<TopicDefinition> = {
  needs: 'a name',
  fields: ['partitions', 'types', 'retention'],
  nameFault: topicNameFault,
  check: checkTopicBody,
};
const GROUP_RULES: Rules<GroupDefinition> = {
  needs: 'a name and topics',
  fields: ['topics', 'start', 'session', 'maxInFlight', 'attempts', 'takeover', 'onExpired'],
  nameFault: groupNameFault,
  check: checkGroupBody,
};

/** Its credentials may be in a file of their own, as those of a listener. */
async function readSource(
  item: unknown,
  context: EntryContext,
): Promise<Entry<SourceDefinition> | undefined> {
  const { folder, bounds, faults, index } = context;
  const { credentialsFile, ...given } = isMapping(item) ? item : { credentialsFile: undefined };
  const read = await credentialsOf((given as { credentials?: unknown }).credentials, credentialsFile, folder);
  if (read.fault) faults.push({ path: ['sources', index, 'credentialsFile'], detail: read.fault });
  const rules: Rules<SourceDefinition> = {
    needs: 'a name, and nats or rabbitmq',
    fields: SOURCE_FIELDS,
    nameFault: (name) => (isName(name) ? undefined : `must be ${NAME_FORM}`),
    check: (body) => checkSource(body, bounds.checkServer),
  };
  const body = isMapping(item) ? { ...given, ...read.credentials } : item;
  return readDefinition('sources', body, rules, context);
}

/** A topic or a group is checked as the body of a PUT is. */
async function readDefinition<Definition>(
  section: Section,
  item: unknown,
  rules: Rules<Definition>,
  { index, yaml, faults }: EntryContext,
): Promise<Entry<Definition> | undefined> {
  const path = [section, index];
  if (!isMapping(item)) {
    faults.push({ path, detail: `must be a mapping with ${rules.needs}` });
    return undefined;
  }
  const { name, ...body } = item;
  const nameFault = name === undefined ? 'is required' : rules.nameFault(name);
  if (nameFault) faults.push({ path: [...path, 'name'], detail: nameFault });
  try {
    const definition = await rules.check(body);
    const lineOf = (pointer: string) => yaml.lineOf([...path, ...stepsOf(pointer)]);
    return { name: name as string, definition, lineOf };
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    const errors = (error.more.errors ?? []).map((one) => withSuggestion(one, rules.fields));
    for (const { pointer, detail } of errors) faults.push({ path: [...path, ...stepsOf(pointer)], detail });
    return undefined;
  }
}

function repeatedNames(section: Section, items: readonly unknown[]): Fault[] {
  const names = items.map((item) => (isMapping(item) ? item.name : undefined));
  return names.flatMap((name, index) =>
    typeof name === 'string' && names.indexOf(name) < index
      ? [
          {
            path: [section, index, 'name'],
            detail: `is also the name of ${section}[${names.indexOf(name)}]`,
          },
        ]
      : [],
  );
}

/** The steps of a JSON pointer. */
function stepsOf(pointer: string): string[] {
  if (pointer === '') return [];
  return pointer
    .slice(1)
    .split('/')
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));
}

function placeOf(path: readonly (string | number)[]): string {
  if (path.length === 0) return 'the file';
  return path
    .map((step) => (/^\d+$/.test(String(step)) ? `[${step}]` : `.${step}`))
    .join('')
    .slice(1);
}
