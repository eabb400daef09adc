import 'reflect-metadata';
import { describe, expect, it } from '@jest/globals';
import { Type } from 'class-transformer';
import { IsInt, IsString, MaxLength, ValidateNested } from 'class-validator';
import type { Message } from '../../contract/message.ts';
import { Refuse } from '../../contract/outcomes.ts';
import { withPayloadOf } from './applied-message.ts';

class Address {
  @IsString() street: string;
}

class Person {
  @IsString()
  @MaxLength(3)
  name: string;

  @IsInt() age: number;

  @ValidateNested({ each: true })
  @Type(() => Address)
  homes: Address[];
}

class Robot {
  @IsInt() serial: number;
}

const message = (payload: unknown, type = 'person') => ({ type, payload }) as Message;

function refusal(payload: unknown): string {
  try {
    withPayloadOf(message(payload), Person);
    return 'not refused';
  } catch (error) {
    expect(error).toBeInstanceOf(Refuse);
    return (error as Error).message;
  }
}

describe('the payload class', () => {
  it('creates an instance of a payload that matches, and keeps unknown members', () => {
    const payload = { name: 'Ada', age: 36, homes: [{ street: 'St James' }], extra: { kept: true } };
    const checked = withPayloadOf(message(payload), Person).payload as Person;
    expect(checked).toBeInstanceOf(Person);
    expect(checked.homes[0]).toBeInstanceOf(Address);
    expect({ ...checked, homes: [{ ...checked.homes[0] }] }).toEqual(payload);
  });

  it('ignores additional members of any name', () => {
    const payload = JSON.parse(
      '{"name":"Ada","age":1,"homes":[],"toString":1,"constructor":2,"other":{"constructor":{"then":3}}}',
    );
    const checked = withPayloadOf(message(payload), Person).payload as Record<string, unknown>;
    expect(checked).toBeInstanceOf(Person);
    expect([checked.toString, checked.constructor, checked.other]).toEqual([1, 2, payload.other]);
    expect(refusal({ name: 'Ada', age: 1, homes: [{ street: 'x', constructor: 1 }] })).toBe('not refused');
    expect(refusal({ name: { constructor: 1 }, age: 1, homes: [] })).toMatch('cannot be converted to Person');
  });

  it('refuses a payload that does not match, with every error and its place', () => {
    expect(refusal({ name: 'Augusta', age: '36', homes: [{ street: 'ok' }, { street: 5 }] })).toBe(
      'the payload is not a Person: ' +
        '/name must be shorter than or equal to 3 characters; /age must be an integer number; ' +
        '/homes/1/street must be a string',
    );
  });

  it.each([[null], [7], ['text'], [[]], [true]])('refuses %j, which is not an object', (payload) => {
    expect(refusal(payload)).toBe('the payload is not an object, so not a Person');
  });

  it('may be one for each type, or none', () => {
    const classes = { person: Person, robot: Robot };
    expect(withPayloadOf(message({ serial: 1 }, 'robot'), classes).payload).toBeInstanceOf(Robot);
    expect(() => withPayloadOf(message({ serial: 1 }, 'person'), classes)).toThrow('not a Person');
    expect(withPayloadOf(message([1], 'person'), undefined).payload).toEqual([1]);
  });
});
