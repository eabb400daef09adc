import { ApiPropertyOptional } from '@nestjs/swagger';
import { formatDuration, parseDuration } from '../config/duration.ts';
import { durationFrom, listOf, Must, wholeFrom } from '../http/definition-rules.ts';
import { isName, NAME_FORM } from '../http/names.ts';
import { Optional } from '../http/optional.ts';
import { invalidFields, Problem } from '../http/problems.ts';
import { validated } from '../http/valid-body.ts';
import { typeFault } from '../listeners/check-definition.ts';
import { DEFAULT_PARTITIONS, MAX_PARTITIONS } from './topic.ts';
import type { TopicView } from './topics.openapi.ts';
import type { Tail, TopicRow } from './topics-store.ts';

const MAX_TYPES = 50;
const MIN_RETENTION_MS = 60_000;
const MAX_RETENTION_MS = 3_650 * 86_400_000;
/** Names of the topics that belong to a group. */
const OF_A_GROUP = /\.(dead|revived)$/;

/** The body of a PUT, or an entry of the file. */
export class TopicDefinition {
  @ApiPropertyOptional({
    type: 'integer',
    minimum: 1,
    maximum: MAX_PARTITIONS,
    default: DEFAULT_PARTITIONS,
    description: 'Cannot be changed later. A power of two spreads keys most evenly.',
  })
  @Optional()
  @Must(wholeFrom(1, MAX_PARTITIONS))
  partitions?: number;

  @ApiPropertyOptional({
    type: [String],
    minItems: 1,
    maxItems: MAX_TYPES,
    example: ['order.*'],
    description: `Types of messages; \`*\` stands for any characters. Default: the name of the topic.`,
  })
  @Optional()
  @Must(listOf(1, MAX_TYPES))
  types?: string[];

  @ApiPropertyOptional({
    example: '7d',
    description: 'How long messages stay in it. Default: RETENTION_TOPICS.',
  })
  @Optional()
  @Must(durationFrom(MIN_RETENTION_MS, MAX_RETENTION_MS))
  retention?: string;
}

/** Throws a 422. */
export async function checkTopic(name: string, body: unknown): Promise<TopicDefinition> {
  const fault = topicNameFault(name);
  if (fault) throw new Problem('invalid', `The name ${fault}.`);
  return checkTopicBody(body);
}

/** Why a topic cannot be created with this name, as the rest of a sentence. */
export function topicNameFault(name: unknown): string | undefined {
  if (!isName(name)) return `must be ${NAME_FORM}`;
  return OF_A_GROUP.test(name)
    ? 'must not end with ".dead" or ".revived", which are for the topics of groups'
    : undefined;
}

/** Throws a 422 that lists every error. */
export async function checkTopicBody(body: unknown): Promise<TopicDefinition> {
  const definition = await validated(TopicDefinition, body ?? {});
  const errors = (definition.types ?? []).flatMap((type, index) => {
    const detail = typeFault(type);
    return detail === undefined ? [] : [{ pointer: `/types/${index}`, detail }];
  });
  if (errors.length) throw invalidFields(errors);
  return definition;
}

export function typesOf(name: string, { types }: TopicDefinition): string[] {
  return types ?? [name];
}

export function retentionOf({ retention }: TopicDefinition): number | null {
  return retention === undefined ? null : parseDuration(retention)!;
}

/** A topic as the API shows it. */
export function topicView(
  row: TopicRow & { readonly tails: readonly Tail[] | null },
  keptForMs: number,
): TopicView {
  return {
    name: row.name,
    types: row.types,
    retention: formatDuration(keptForMs),
    kind: row.kind,
    origin: row.origin,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    partitions: row.tails ?? [],
  };
}
