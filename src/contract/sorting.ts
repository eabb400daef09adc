import { applyDecorators, type Type } from '@nestjs/common';
import { ApiExtraModels, ApiQuery, getSchemaPath } from '@nestjs/swagger';
import type { ObjectLiteral, SelectQueryBuilder } from 'typeorm';
import { PAGE_BYTES } from '../http/page-bytes.ts';
import { ApiPage as ApiPageOf, type Page, pageOf, pageRequest } from '../http/pages.ts';
import { Problem } from '../http/problems.ts';
import type { Schema } from '../http/schema.ts';
import { utcOf } from '../http/time.ts';

/**
 * The type of a sortable field. Its column must be NOT NULL; a `time` must be `timestamptz(3)`, because a Date and a
 * cursor hold no more than milliseconds.
 */
export type SortableType = 'text' | 'time';

/** A checked request for one page of a sorted list. */
export interface SortedRequest<Field extends string> {
  readonly sort: string;
  readonly field: Field;
  readonly descending: boolean;
  readonly limit: number;
  readonly after: Cursor | undefined;
}

/** Where a page ended: its sort, the last row's value of the sorted field, and that row's id. */
type Cursor = readonly [sort: string, value: string, id: string];

/**
 * Keyset pagination over a list that is sorted by declared fields only. Each page continues after the last row of the
 * previous one, regardless of what was written in between, and costs the same however deep into the list it is.
 *
 *     const SORTING = new Sorting({ appliedAt: 'time', name: 'text' }, '-appliedAt');
 */
export class Sorting<Field extends string> {
  /** The allowed values of `?sort=`; a leading `-` means descending. */
  readonly sorts: readonly string[];

  constructor(
    private readonly fields: Readonly<Record<Field, SortableType>>,
    readonly defaultSort: NoInfer<Field | `-${Field}`>,
  ) {
    this.sorts = Object.keys(fields).flatMap((field) => [field, `-${field}`]);
  }

  /** Checks the query parameters `sort`, `limit` and `cursor`; throws a 422 problem if one is not valid. */
  request(query: {
    readonly sort?: string | undefined;
    readonly limit?: string | undefined;
    readonly cursor?: string | undefined;
  }): SortedRequest<Field> {
    const sort = query.sort ?? this.defaultSort;
    if (!this.sorts.includes(sort))
      throw new Problem('invalid', `sort must be one of ${this.sorts.join(', ')}.`);
    const descending = sort.startsWith('-');
    const field = (descending ? sort.slice(1) : sort) as Field;
    const page = pageRequest(query, (value): value is Cursor => this.isCursor(value, sort, field));
    return { sort, field, descending, ...page };
  }

  /** Runs the query for one page. Ties are broken by `id`, the entity's primary key. */
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
    const { rows, pageSize } = await rowsWithinBytes(builder, limit);
    return pageOf(rows, pageSize, (row) => [sort, textOf(row[field]), row.id] satisfies Cursor, itemOf);
  }

  private isCursor(value: unknown, sort: string, field: Field): value is Cursor {
    if (!Array.isArray(value) || value.length !== 3 || value[0] !== sort) return false;
    if (!value.every((one) => typeof one === 'string' && !one.includes('\u0000'))) return false;
    return this.fields[field] === 'text' || utcOf(value[1]) === value[1];
  }
}

/**
 * Reads the rows of one page plus one more row, if there is one. The page ends at `limit` rows, or earlier where the rows
 * together exceed PAGE_BYTES; `pageSize` is the resulting number. The sizes are queried first, because the database
 * client would otherwise hold all `limit` rows in memory, however large they are.
 */
export async function rowsWithinBytes<Row extends ObjectLiteral>(
  builder: SelectQueryBuilder<Row>,
  limit: number,
): Promise<{ rows: Row[]; pageSize: number }> {
  const sizes = await builder
    .clone()
    .select(`octet_length(("${builder.alias}".*)::text)`, 'bytes')
    .limit(limit)
    .getRawMany<{ bytes: number }>();
  let bytesLeft = PAGE_BYTES;
  const firstTooLarge = sizes.findIndex(({ bytes }) => {
    bytesLeft -= bytes;
    return bytesLeft < 0;
  });
  const pageSize = firstTooLarge < 0 ? limit : Math.max(1, firstTooLarge);
  return { rows: await builder.limit(pageSize + 1).getMany(), pageSize };
}

/** Documents the parameters and the response of a sorted list in the OpenAPI document. */
export function ApiSortedPage(item: Type, sorting: Sorting<string>): MethodDecorator {
  return applyDecorators(
    ApiQuery({
      name: 'sort',
      required: false,
      schema: { type: 'string', enum: [...sorting.sorts], default: sorting.defaultSort },
      description: 'The order; `-` means descending.',
    }),
    ApiPage(item),
  ) as MethodDecorator;
}

/** Documents the parameters and the response of a paged list in the OpenAPI document. */
export function ApiPage(item: Type): MethodDecorator {
  const schema = { $ref: getSchemaPath(item) } as Schema;
  return applyDecorators(ApiExtraModels(item), ApiPageOf(schema)) as MethodDecorator;
}

function textOf(value: unknown): string {
  return value instanceof Date ? value.toISOString() : String(value);
}
