import { applyDecorators, type Type } from '@nestjs/common';
import { ApiExtraModels, ApiOkResponse, ApiQuery, getSchemaPath } from '@nestjs/swagger';
import type { ObjectLiteral, SelectQueryBuilder } from 'typeorm';
import { PAGE_BYTES } from '../http/page-bytes.ts';
import { PAGE_LIMIT_FORM, type Page, pageOf, pageRequest } from '../http/pages.ts';
import { Problem } from '../http/problems.ts';
import { utcOf } from '../http/time.ts';

/** A sortable field: of a NOT NULL column; a time of milliseconds, `timestamptz(3)`, as a Date and a cursor hold it. */
export type SortedAs = 'text' | 'time';

/** A page that was asked for. */
export interface SortedRequest<Field extends string> {
  readonly sort: string;
  readonly field: Field;
  readonly descending: boolean;
  readonly limit: number;
  readonly after: Cursor | undefined;
}

/** Where a page ended: its sort, the last row's value there, and that row's id. */
type Cursor = readonly [sort: string, value: string, id: string];

/**
 * Lists sorted by declared fields only, in keyset pages: a page goes on where the last one ended, whatever was written
 * meanwhile, and costs the same however far it is.
 *
 *     const SORTING = new Sorting({ appliedAt: 'time', name: 'text' }, '-appliedAt');
 */
export class Sorting<Field extends string> {
  /** What `?sort=` takes; a leading `-` is descending. */
  readonly sorts: readonly string[];

  constructor(
    private readonly fields: Readonly<Record<Field, SortedAs>>,
    private readonly usual: NoInfer<Field | `-${Field}`>,
  ) {
    this.sorts = Object.keys(fields).flatMap((field) => [field, `-${field}`]);
  }

  request(query: {
    readonly sort?: string | undefined;
    readonly limit?: string | undefined;
    readonly cursor?: string | undefined;
  }): SortedRequest<Field> {
    const sort = query.sort ?? this.usual;
    if (!this.sorts.includes(sort))
      throw new Problem('invalid', `sort must be one of ${this.sorts.join(', ')}.`);
    const descending = sort.startsWith('-');
    const field = (descending ? sort.slice(1) : sort) as Field;
    const page = pageRequest(query, (value): value is Cursor => this.isCursor(value, sort, field));
    return { sort, field, descending, ...page };
  }

  /** Runs the query for the page that was asked for. Ties are broken by `id`, the entity's primary key. */
  async page<Row extends ObjectLiteral & { readonly id: string }, Item>(
    builder: SelectQueryBuilder<Row>,
    { sort, field, descending, limit, after }: SortedRequest<Field>,
    itemOf: (row: Row) => Item,
  ): Promise<Page<Item>> {
    const columns = [`${builder.alias}.${field}`, `${builder.alias}.id`] as const;
    if (after) {
      const [, value, id] = after;
      const beyond = `(${columns.join(', ')}) ${descending ? '<' : '>'} (:cursorValue, :cursorId)`;
      builder.andWhere(beyond, { cursorValue: value, cursorId: id });
    }
    for (const column of new Set(columns)) builder.addOrderBy(column, descending ? 'DESC' : 'ASC');
    const { rows, fitting } = await rowsWithinBytes(builder, limit);
    return pageOf(rows, fitting, (row) => [sort, textOf(row[field]), row.id] satisfies Cursor, itemOf);
  }

  private isCursor(value: unknown, sort: string, field: Field): value is Cursor {
    if (!Array.isArray(value) || value.length !== 3 || value[0] !== sort) return false;
    if (!value.every((one) => typeof one === 'string' && !one.includes('\u0000'))) return false;
    return this.fields[field] === 'text' || utcOf(value[1]) === value[1];
  }
}

/**
 * The rows of a page, which ends where they become too large together, and one more if there is one. `fitting`: how many
 * the page has room for. Their sizes are asked for first: the client would hold all of what it asks for.
 */
export async function rowsWithinBytes<Row extends ObjectLiteral>(
  builder: SelectQueryBuilder<Row>,
  limit: number,
): Promise<{ rows: Row[]; fitting: number }> {
  const sizes = await builder
    .clone()
    .select(`octet_length(("${builder.alias}".*)::text)`, 'bytes')
    .limit(limit)
    .getRawMany<{ bytes: number }>();
  let left = PAGE_BYTES;
  const tooLarge = sizes.findIndex(({ bytes }) => {
    left -= bytes;
    return left < 0;
  });
  const fitting = tooLarge < 0 ? limit : Math.max(1, tooLarge);
  return { rows: await builder.limit(fitting + 1).getMany(), fitting };
}

/** The parameters and the answer of a sorted list, in the OpenAPI document. */
export function ApiSortedPage(item: Type, sorting: Sorting<string>): MethodDecorator {
  return applyDecorators(
    ApiQuery({ name: 'sort', required: false, enum: sorting.sorts }),
    ApiPage(item),
  ) as MethodDecorator;
}

/** The parameters and the answer of a list in pages, in the OpenAPI document. */
export function ApiPage(item: Type): MethodDecorator {
  return applyDecorators(
    ApiQuery({ name: 'limit', required: false, description: PAGE_LIMIT_FORM }),
    ApiQuery({ name: 'cursor', required: false, description: '`next` of the page before.' }),
    ApiExtraModels(item),
    ApiOkResponse({
      schema: {
        type: 'object',
        required: ['items', 'next'],
        properties: {
          items: { type: 'array', items: { $ref: getSchemaPath(item) } },
          next: { type: 'string', nullable: true, description: 'Null at the end.' },
        },
      },
    }),
  ) as MethodDecorator;
}

function textOf(value: unknown): string {
  return value instanceof Date ? value.toISOString() : String(value);
}
