import { pointerTo } from '../pointer.ts';
import type { JsonFault } from './json-fault.ts';
import { JsonLexer, REFUSED } from './json-lexer.ts';
import { JsonOutline, type JsonSlice } from './json-outline.ts';
import { SeenKeys } from './seen-keys.ts';

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const LOWER_F = 0x66;
const LOWER_N = 0x6e;
const LOWER_T = 0x74;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/**
 * Maximum number of values in any text: numbers with an exponent cost 0.3 µs each, and 16 MiB of them blocked the event
 * loop for more than a second.
 */
const MAX_VALUES = 1_000_000;
/** Maximum number of values in objects so large that their keys are in a Set: 2.5 µs and 80 bytes each. */
const MAX_KEYS_OF_LARGE_OBJECTS = 300_000;

/** In place of a key: the scan is between two members of the object. */
const NO_MEMBER = -1;

export interface ScanOptions {
  /** Maximum nesting of objects and arrays, including the outermost. Default: 64. */
  maxDepth?: number;
  /** How many levels get slices. Default: 1, the members of the document. 3 reaches `{messages: [{…}]}`. */
  outline?: number;
  /** Maximum number of children of a container of the outline, by level. The scan stops beyond it: each costs memory. */
  maxChildren?: readonly number[];
  /** Maximum number of values in total. Default: a million. */
  maxValues?: number;
  /** Scan only this part of the text, the value at `pointer` of the whole. */
  start?: number;
  end?: number;
  pointer?: string;
  /** Reject only 'malformed', 'too-deep' and 'too-many': finds the elements of a text of which one element is rejected. */
  grammarOnly?: boolean;
}

export type ScanResult = { ok: true; value: JsonSlice } | { ok: false; fault: JsonFault };

/** Scans a text value by value, without recursion. Positions are relative to the start of the scanned part. */
export class JsonWalker {
  private readonly lexer = new JsonLexer();
  private readonly seen = new SeenKeys(this.lexer);
  private readonly outline = new JsonOutline();
  private maxDepth = 0;
  private depth = 0;
  private maxValues = 0;
  private valuesLeft = 0;
  private maxChildren: readonly number[] = [];
  /** The depth of a fault's pointer, if the fault is not at the current value. */
  private faultDepth: number | undefined;
  /** By level: the closing character of the container, and its current member (the offset of its key, or its index). */
  private closers = new Uint8Array(0);
  private current = new Int32Array(0);
  private currentEnd = new Int32Array(0);
  /** By level: whether the object is the value of a key `constructor`. */
  private inConstructor = new Uint8Array(0);
  private afterConstructor = false;

  scan(text: string, options: ScanOptions): ScanResult {
    const { start = 0, end = text.length, pointer = '' } = options;
    this.begin(options);
    this.outline.begin(options.outline ?? 1, this.maxChildren, start);
    this.lexer.load(
      end - start === text.length ? text : text.slice(start, end),
      options.grammarOnly ?? false,
    );

    const result: ScanResult = this.document()
      ? { ok: true, value: this.outline.document }
      : { ok: false, fault: this.fault(start, pointer) };
    this.release();
    return result;
  }

  /** Drops all references to the text. */
  private release(): void {
    this.lexer.release();
    this.outline.release();
    this.seen.release();
  }

  private begin(options: ScanOptions): void {
    const { maxDepth = 64, maxValues = MAX_VALUES, maxChildren = [], grammarOnly = false } = options;
    this.maxDepth = maxDepth;
    this.depth = 0;
    this.maxValues = maxValues;
    this.valuesLeft = maxValues;
    this.maxChildren = maxChildren;
    this.faultDepth = undefined;
    this.afterConstructor = false;
    if (!grammarOnly) this.seen.reserve(maxDepth);
    if (maxDepth <= this.closers.length) return;
    this.closers = new Uint8Array(maxDepth);
    this.current = new Int32Array(maxDepth);
    this.currentEnd = new Int32Array(maxDepth);
    this.inConstructor = new Uint8Array(maxDepth);
  }

  private document(): boolean {
    const { lexer } = this;
    let i = lexer.skipSpace(0);
    do {
      i = this.value(i);
      if (i !== REFUSED) i = this.afterValue(i);
      if (i === REFUSED) return false;
    } while (this.depth > 0);

    i = lexer.skipSpace(i);
    return i === lexer.text.length || lexer.malformed(i, 'Expected nothing after the value.') !== REFUSED;
  }

  /** Opens containers down to the first complete value: a scalar or an empty container. */
  private value(i: number): number {
    for (;;) {
      const c = this.lexer.peek(i);
      if (--this.valuesLeft < 0) return this.tooManyValues(i);
      if (this.depth > 0 && this.outline.isFull(this.depth - 1)) return this.tooManyChildren(i);
      if (c !== OPEN_OBJECT && c !== OPEN_ARRAY) return this.scalar(i, c);
      i = this.open(i, c);
      if (i === REFUSED) return REFUSED;
      if (this.lexer.peek(i) === this.closers[this.depth - 1]) return this.close(i);
      if (c === OPEN_OBJECT) i = this.key(i);
      if (i === REFUSED) return REFUSED;
    }
  }

  /** Closes the containers that end here and moves to the next value, if there is one. */
  private afterValue(i: number): number {
    const { lexer } = this;
    while (this.depth > 0) {
      const level = this.depth - 1;
      const closer = this.closers[level]!;
      i = lexer.skipSpace(i);
      const c = lexer.peek(i);
      if (c === COMMA) {
        i = lexer.skipSpace(i + 1);
        if (closer === CLOSE_OBJECT) return this.key(i);
        this.current[level]!++;
        return i;
      }
      if (c !== closer) {
        this.current[level] = NO_MEMBER;
        return lexer.malformed(i, `Expected a comma or ${String.fromCharCode(closer)} here.`);
      }
      i = this.close(i);
    }
    return i;
  }

  private scalar(start: number, c: number): number {
    const after = this.scalarEnd(start, c);
    if (after !== REFUSED && this.outline.has(this.depth)) {
      this.outline.add(this.depth, this.memberName(), c, start, after);
    }
    return after;
  }

  private scalarEnd(start: number, c: number): number {
    const { lexer } = this;
    if (c === QUOTE) return lexer.string(start);
    if (c === LOWER_T) return lexer.literal(start, 'true');
    if (c === LOWER_F) return lexer.literal(start, 'false');
    if (c === LOWER_N) return lexer.literal(start, 'null');
    return lexer.number(start);
  }

  /** Reported for the whole text, because the position of the last value has no meaning. */
  private tooManyValues(start: number): number {
    this.faultDepth = 0;
    return this.lexer.refuse('too-many', start, `must not contain more than ${this.maxValues} values`);
  }

  private tooManyChildren(start: number): number {
    const level = this.depth - 1;
    this.faultDepth = level;
    const what = this.closers[level] === CLOSE_ARRAY ? 'items' : 'members';
    return this.lexer.refuse('too-many', start, `must not have more than ${this.maxChildren[level]} ${what}`);
  }

  private open(start: number, c: number): number {
    const level = this.depth;
    if (level === this.maxDepth) {
      return this.lexer.refuse('too-deep', start, `Nested more than ${level} levels deep.`);
    }
    if (this.outline.has(level)) this.outline.add(level, this.memberName(), c, start, start);
    if (c === OPEN_OBJECT) {
      this.closers[level] = CLOSE_OBJECT;
      this.current[level] = NO_MEMBER;
      this.inConstructor[level] = this.afterConstructor ? 1 : 0;
      this.seen.open(level);
    } else {
      this.closers[level] = CLOSE_ARRAY;
      this.current[level] = 0;
    }
    this.afterConstructor = false;
    this.depth = level + 1;
    return this.lexer.skipSpace(start + 1);
  }

  private close(i: number): number {
    this.depth--;
    this.afterConstructor = false;
    this.outline.close(this.depth, i + 1);
    return i + 1;
  }

  /** Reads a key and returns where its value begins. */
  private key(quote: number): number {
    const { lexer } = this;
    const level = this.depth - 1;
    this.current[level] = NO_MEMBER;
    if (lexer.peek(quote) !== QUOTE) return lexer.malformed(quote, 'Expected a key in double quotes.');
    const after = lexer.key(quote);
    if (after === REFUSED) return REFUSED;
    this.current[level] = quote;
    this.currentEnd[level] = after;

    if (!lexer.grammarOnly && !this.isAllowed(level, quote, after)) return REFUSED;
    const colon = lexer.skipSpace(after);
    if (lexer.peek(colon) !== COLON) return lexer.malformed(colon, 'Expected a colon after the key.');
    return lexer.skipSpace(colon + 1);
  }

  private isAllowed(level: number, quote: number, after: number): boolean {
    if (this.isUnsafe(level, quote, after)) {
      this.lexer.refuse('unsafe-key', quote, 'This key could change the prototype of an object.');
      return false;
    }
    if (!this.seen.add(level, quote, after)) {
      this.lexer.refuse('duplicate-key', quote, 'Duplicate key.');
      return false;
    }
    if (this.seen.inSets > MAX_KEYS_OF_LARGE_OBJECTS) {
      this.faultDepth = 0;
      const detail = `must not contain more than ${MAX_KEYS_OF_LARGE_OBJECTS} members in large objects`;
      this.lexer.refuse('too-many', quote, detail);
      return false;
    }
    return true;
  }

  /** `__proto__`, and `prototype` inside `constructor`: a careless merge would copy them to Object.prototype. */
  private isUnsafe(level: number, quote: number, after: number): boolean {
    const length = after - quote - 2;
    this.afterConstructor = false;
    if (this.lexer.keyIsPlain && length !== 9 && length !== 11) return false;
    const name = this.lexer.keyName(quote, after);
    this.afterConstructor = name === 'constructor';
    return name === '__proto__' || (name === 'prototype' && this.inConstructor[level] === 1);
  }

  /** The key of the current value; '' for an element and for the document. */
  private memberName(): string {
    const level = this.depth - 1;
    return level < 0 || this.closers[level] === CLOSE_ARRAY ? '' : this.keyAt(level);
  }

  private keyAt(level: number): string {
    return this.lexer.keyName(this.current[level]!, this.currentEnd[level]!);
  }

  private fault(start: number, base: string): JsonFault {
    const { code, offset, detail } = this.lexer.problem!;
    let pointer = base;
    const depth = this.faultDepth ?? this.depth;
    for (let level = 0; level < depth && this.current[level] !== NO_MEMBER; level++) {
      const isArray = this.closers[level] === CLOSE_ARRAY;
      pointer = pointerTo(pointer, isArray ? String(this.current[level]) : this.keyAt(level));
    }
    return { code, pointer, offset: offset + start, detail };
  }
}
