import { describe, expect, it } from '@jest/globals';
import { Samples } from './samples.ts';

describe('samples of /metrics', () => {
  it('are found by their labels, whatever characters a label contains', () => {
    const samples = new Samples(
      [
        '# HELP sluice_backlog what waits',
        'sluice_backlog{listener="a \\"b\\" C:\\\\new\\nline",status="ready"} 3',
        'sluice_backlog{listener="other",status="ready"} 4',
        'process_cpu_seconds_total 1',
      ].join('\n'),
    );
    expect(samples.sum('backlog', { listener: 'a "b" C:\\new\nline' })).toBe(3);
    expect(samples.sum('backlog', { status: 'ready' })).toBe(7);
    expect(samples.max('backlog')).toBe(4);
    expect(samples.sum('cpu_seconds_total')).toBeUndefined();
  });
});
