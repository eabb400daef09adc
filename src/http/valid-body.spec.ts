import 'reflect-metadata';
import { describe, expect, it } from '@jest/globals';
import { Type } from 'class-transformer';
import { IsObject, IsOptional, IsString, ValidateNested } from 'class-validator';
import { validated } from './valid-body.ts';

class Inner {
  @IsOptional()
  @IsString()
  note?: string;
}

class Outer {
  @IsOptional()
  @IsString()
  note?: string;

  @IsOptional()
  @ValidateNested()
  @Type(() => Inner)
  inner?: Inner;

  /** Anybody's. */
  @IsOptional()
  @IsObject()
  labels?: object;
}

describe('a valid body', () => {
  it('lacks what was null, in its own fields and in those of a class inside it', async () => {
    const body = await validated(Outer, { note: null, inner: { note: null } });
    expect([body.note, body.inner]).toEqual([undefined, new Inner()]);
    expect(body.inner!.note).toBeUndefined();
  });

  it('keeps what is in an object of no class as it was sent', async () => {
    const labels = { colour: null, deeper: { size: null } };
    const body = await validated(Outer, { labels });
    expect(body.labels).toEqual(labels);
  });
});
