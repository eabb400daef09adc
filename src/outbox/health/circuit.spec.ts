import { describe, expect, it } from '@jest/globals';
import { Circuit } from './listener-policy.ts';

/** Whether it should open after each of these calls. */
function opensAfter(results: string, everyMs = 1_000): boolean[] {
  const circuit = new Circuit();
  return [...results].map((result, index) => circuit.count(result === '+', index * everyMs));
}

describe('E12 the circuit of a listener', () => {
  it('opens with the tenth failure, not before', () => {
    expect(opensAfter('----------')).toEqual([...Array(9).fill(false), true]);
  });

  it('opens at 70 % of failures, and never with a success', () => {
    expect(opensAfter('+++-------').at(-1)).toBe(true);
    expect(opensAfter('++++--------').at(-1)).toBe(false);
    expect(opensAfter('++++----------').at(-1)).toBe(true);
    expect(opensAfter('---------+').at(-1)).toBe(false);
  });

  it('counts the last 5 minutes only', () => {
    expect(opensAfter('----------', 29_000).at(-1)).toBe(true);
    expect(opensAfter('----------', 40_000).at(-1)).toBe(false);
  });

  it('starts over when it has opened', () => {
    const circuit = new Circuit();
    for (let n = 0; n < 10; n++) circuit.count(false, n);
    circuit.forget();
    expect(circuit.count(false, 11)).toBe(false);
  });
});
